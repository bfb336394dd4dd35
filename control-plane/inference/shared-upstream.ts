// The gateway's end of a shared connection: one stream per request, answers handed on by callbacks.
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Duplex } from "node:stream";
import {
  answerWindow,
  BadFrame,
  FrameSocket,
  frameKind,
  mostPayload,
  readFields,
  sharedPath,
  sharedProtocol,
  withFields,
} from "../../proto/frames.ts";
import { usageHeader } from "../../proto/usage.ts";
import type { UpstreamCall, UpstreamHeaders, UpstreamListener, UpstreamRequest } from "./upstreams.ts";

/** The agent answers, but knows no shared connections. */
export class NotShared extends Error {
  override readonly name = "NotShared";
}

export interface SharedConnection {
  readonly isClosed: boolean;
  send(request: UpstreamRequest, listener: UpstreamListener): void;
  /** Breaks what runs. */
  close(): void;
}

/** Rejects with NotShared, or with what kept it from connecting. `gone`: called once when the connection has ended. */
export function connectShared(origin: string, signal: AbortSignal, gone: () => void): Promise<SharedConnection> {
  const url = new URL(sharedPath, origin);
  const ask = url.protocol === "https:" ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const asking = ask(url, { headers: { connection: "upgrade", upgrade: sharedProtocol }, signal, agent: false });
    asking.once("upgrade", (_answer, socket, first) => {
      socket.setNoDelay(true);
      resolve(shareConnection(socket, first, gone));
    });
    asking.once("response", (answer) => {
      answer.resume();
      reject(new NotShared(`the agent answered ${answer.statusCode}`));
    });
    asking.once("error", reject);
    asking.end();
  });
}

function shareConnection(socket: Duplex, first: Buffer, gone: () => void): SharedConnection {
  const calls = new Map<number, SharedCall>();
  let lastStream = 0;
  const frames = new FrameSocket(socket, first, {
    frame(kind, stream, payload) {
      // A frame of a request that was aborted is late, not wrong.
      calls.get(stream)?.take(kind, payload);
    },
    drained() {},
    closed(error) {
      const open = [...calls.values()];
      calls.clear();
      gone();
      for (const call of open) call.broke(error);
    },
  });
  return {
    get isClosed() {
      return frames.isClosed;
    },
    send(request, listener) {
      // The counter has room for years; a connection that reaches its end makes way for the next.
      if (lastStream === 0xffff_ffff) frames.close(new Error("the connection has no stream numbers left"));
      if (frames.isClosed)
        return listener.onResponseError(undefined, new Error("the connection to the agent was lost"));
      const stream = ++lastStream;
      const call = new SharedCall(frames, stream, listener, () => calls.delete(stream));
      calls.set(stream, call);
      listener.onRequestStart(call);
      if (call.isOver) return;
      const { body } = request;
      const fields = [request.path, "application/json", request.ticket];
      if (body.length <= mostPayload) {
        frames.send(frameKind.wholeRequest, stream, withFields(fields, body));
        return;
      }
      frames.send(frameKind.request, stream, withFields(fields, body.subarray(0, mostPayload)));
      for (let at = mostPayload; at < body.length; at += mostPayload)
        frames.send(frameKind.data, stream, body.subarray(at, at + mostPayload));
      frames.send(frameKind.end, stream);
    },
    close: () => frames.close(new Error("the control plane is shutting down")),
  };
}

const noHeaders: UpstreamHeaders = {};

class SharedCall implements UpstreamCall {
  isOver = false;
  readonly #frames: FrameSocket;
  readonly #stream: number;
  readonly #listener: UpstreamListener;
  readonly #left: () => void;
  #isPaused = false;
  /** What came while paused. */
  #kept: { readonly kind: number; readonly payload: Buffer }[] = [];
  /** Passed on and not yet told. */
  #taken = 0;

  constructor(frames: FrameSocket, stream: number, listener: UpstreamListener, left: () => void) {
    this.#frames = frames;
    this.#stream = stream;
    this.#listener = listener;
    this.#left = left;
  }

  // The listener's side.

  abort(): void {
    if (this.isOver) return;
    this.#end();
    this.#frames.send(frameKind.reset, this.#stream);
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    const kept = this.#kept;
    this.#kept = [];
    for (const { kind, payload } of kept) this.take(kind, payload);
  }

  // The agent's side.

  take(kind: number, payload: Buffer): void {
    if (this.isOver) return;
    if (this.#isPaused) {
      this.#kept.push({ kind, payload });
      return;
    }
    switch (kind) {
      case frameKind.whole: {
        const { status, headers, rest } = headOf(payload);
        this.#listener.onResponseStart(this, status, { ...headers, "content-length": String(rest.length) });
        if (rest.length > 0 && !this.isOver) this.#listener.onResponseData(this, rest);
        this.#finish(noHeaders);
        return;
      }
      case frameKind.head: {
        const { status, headers } = headOf(payload);
        this.#listener.onResponseStart(this, status, headers);
        return;
      }
      case frameKind.data:
        this.#listener.onResponseData(this, payload);
        this.#credit(payload.length);
        return;
      case frameKind.end:
        this.#finish(payload.length === 0 ? noHeaders : { [usageHeader]: payload.toString("latin1") });
        return;
      case frameKind.reset:
        this.broke(new Error("the agent broke off the answer"));
        return;
      default:
        throw new BadFrame(`a frame of kind ${kind}`);
    }
  }

  broke(error: Error): void {
    if (this.isOver) return;
    this.#end();
    this.#listener.onResponseError(this, error);
  }

  /** Told in quarters of the window: a frame per chunk would cost as much as the chunk. */
  #credit(bytes: number): void {
    this.#taken += bytes;
    if (this.#taken < answerWindow / 4 || this.isOver) return;
    const credit = Buffer.allocUnsafe(4);
    credit.writeUInt32BE(this.#taken, 0);
    this.#taken = 0;
    this.#frames.send(frameKind.credit, this.#stream, credit);
  }

  #finish(trailers: UpstreamHeaders): void {
    if (this.isOver) return;
    this.#end();
    this.#listener.onResponseEnd(this, trailers);
  }

  #end(): void {
    this.isOver = true;
    this.#kept = [];
    this.#left();
  }
}

function headOf(payload: Buffer): { status: number; headers: Record<string, string>; rest: Buffer } {
  const { fields, rest } = readFields(payload);
  const headers: Record<string, string> = {};
  for (let i = 1; i + 1 < fields.length; i += 2) headers[fields[i] as string] = fields[i + 1] as string;
  return { status: Number(fields[0]), headers, rest };
}
