// Passes bytes between a client's WebSocket and the tunnel to its shell. INVARIANT: neither direction buffers more than a window,
// whatever the host and the client send: the shell's output waits until the client confirms it and until it was sent, and the
// client is not read while the tunnel is full.
import type { Socket } from "node:net";
import type { WebSocket } from "ws";
import {
  dataFrames,
  maxTerminalBytes,
  sizeFrame,
  TerminalFrames,
  terminalWindow,
} from "../../../proto/terminal-tunnel.ts";
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

/** Counts against the window for each frame, beside its bytes: small frames cost work, not memory. */
const frameCost = 256;

/** Returns a function that ends both directions at once, without an event. */
export function joinTerminal(ws: WebSocket, tunnel: Socket, events: TerminalEvents): () => void {
  const frames = new TerminalFrames();
  /** Bytes that the client has not confirmed, and the cost of their frames. */
  let unread = 0;
  let unreadCost = 0;
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
  // A client can confirm what it has not received.
  const outstanding = () => Math.max(unread + unreadCost, ws.bufferedAmount);
  const resume = (): void => {
    if (outstanding() <= terminalWindow / 2) tunnel.resume();
  };
  const confirm = (bytes: number): void => {
    unreadCost -= (unreadCost * bytes) / unread;
    unread -= bytes;
    resume();
  };
  const print = (pieces: readonly Buffer[]): void => {
    if (pieces.length === 0) return;
    const bytes = pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces);
    events.active();
    unread += bytes.length;
    unreadCost += pieces.length * frameCost;
    for (let at = 0; at < bytes.length; at += maxTerminalBytes)
      ws.send(bytes.subarray(at, at + maxTerminalBytes), resume);
    if (outstanding() > terminalWindow) tunnel.pause();
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
    else if (message && message.bytes <= unread) confirm(message.bytes);
    else over(events.invalid);
  });
  ws.once("close", () => over(() => {}));
  tunnel.on("drain", () => ws.resume());
  tunnel.on("data", (chunk: Buffer) => {
    if (isOver) return;
    try {
      const pieces: Buffer[] = [];
      for (const frame of frames.take(chunk)) {
        if (frame.kind === "size") throw new Error("the host sent a size");
        if (frame.kind === "data") pieces.push(frame.bytes);
        else {
          print(pieces);
          ws.send(exitMessage(frame.code));
          over(events.exited);
          return;
        }
      }
      print(pieces);
    } catch (error) {
      over(() => events.lost(error));
    }
  });
  tunnel.on("error", (error) => over(() => events.lost(error)));
  tunnel.once("close", () => over(() => events.lost(new Error("the host closed the connection"))));
  ws.resume();
  return () => over(() => {});
}
