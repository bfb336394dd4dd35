// Passes bytes between a client's WebSocket and the tunnel to its shell. INVARIANT: neither direction buffers more than a window:
// the shell's output waits for the client's confirmations, and the client is not read while the tunnel is full.
import type { Socket } from "node:net";
import type { WebSocket } from "ws";
import { dataFrames, sizeFrame, TerminalFrames, terminalWindow } from "../../../proto/terminal-tunnel.ts";
import { exitMessage, readMessage } from "./terminal-messages.ts";

export interface TerminalEvents {
  /** Bytes passed, so it is in use. */
  active(): void;
  /** The shell ended, and the client was told its exit code. */
  exited(): void;
  /** The host ended the connection, or sent what is no frame. */
  lost(cause: unknown): void;
  /** The client sent an invalid message. */
  invalid(): void;
}

export function joinTerminal(ws: WebSocket, tunnel: Socket, events: TerminalEvents): void {
  const frames = new TerminalFrames();
  let unread = 0;
  let isOver = false;
  const over = (then: () => void): void => {
    if (isOver) return;
    isOver = true;
    then();
    tunnel.destroy();
  };
  const send = (frame: Buffer): void => {
    if (!isOver && !tunnel.write(frame)) ws.pause();
  };

  ws.on("message", (data: Buffer, isBinary) => {
    if (isOver) return;
    if (isBinary) {
      events.active();
      send(dataFrames(data));
      return;
    }
    const message = readMessage(data.toString());
    if (message?.type === "resize") send(sizeFrame(message.size));
    else if (message && message.bytes <= unread) {
      unread -= message.bytes;
      if (unread <= terminalWindow / 2) tunnel.resume();
    } else over(events.invalid);
  });
  ws.once("close", () => over(() => {}));
  tunnel.on("drain", () => ws.resume());
  tunnel.on("data", (chunk: Buffer) => {
    try {
      for (const frame of frames.take(chunk)) {
        if (isOver) return;
        if (frame.kind === "size") throw new Error("the host sent a size");
        if (frame.kind === "exit") {
          ws.send(exitMessage(frame.code));
          over(events.exited);
          return;
        }
        events.active();
        unread += frame.bytes.length;
        ws.send(frame.bytes);
      }
      if (unread > terminalWindow) tunnel.pause();
    } catch (error) {
      over(() => events.lost(error));
    }
  });
  tunnel.on("error", (error) => over(() => events.lost(error)));
  tunnel.once("close", () => over(() => events.lost(new Error("the host closed the connection"))));
  ws.resume();
}
