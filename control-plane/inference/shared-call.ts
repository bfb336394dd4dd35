// One request on a shared connection, at the gateway: frames in, callbacks out.
import { answerWindow, BadFrame, type FrameSocket, frameKind, readFields } from "../../proto/frames.ts";
import { usageHeader } from "../../proto/usage.ts";
import type { UpstreamCall, UpstreamHeaders, UpstreamListener } from "./upstream-call.ts";

/** Maximum bytes of a paused response. Agents send a complete body of up to 64 MiB without waiting; of a stream, only its window. */
const maxKeptBytes = 80 * 1024 * 1024;
/** Memory of a kept frame besides its payload. */
const keptFrameBytes = 128;

const noHeaders: UpstreamHeaders = {};
const nobody: UpstreamListener = {
  onRequestStart() {},
  onResponseStart() {},
  onResponseData() {},
  onResponseEnd() {},
  onResponseError() {},
};

export class SharedCall implements UpstreamCall {
  isOver = false;
  readonly #frames: FrameSocket;
  readonly #stream: number;
  #listener: UpstreamListener;
  #left: () => void;
  #isPaused = false;
  /** Frames that arrived while paused. */
  #kept: { readonly kind: number; readonly payload: Buffer }[] = [];
  #keptBytes = 0;
  /** Bytes passed on and not yet acknowledged. */
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
    this.#keptBytes = 0;
    try {
      for (const { kind, payload } of kept) this.take(kind, payload);
    } catch (error) {
      // As for an arriving frame: the caller here is the client's connection, which does not catch it.
      this.#frames.close(error as Error);
    }
  }

  // The agent's side.

  take(kind: number, payload: Buffer): void {
    if (this.isOver) return;
    if (this.#isPaused) {
      this.#keptBytes += payload.length + keptFrameBytes;
      if (this.#keptBytes > maxKeptBytes) throw new BadFrame("more of a paused response than an agent may send");
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
        this.broke(new Error("the agent interrupted the response"));
        return;
      default:
        throw new BadFrame(`a frame of kind ${kind}`);
    }
  }

  broke(error: Error): void {
    if (this.isOver) return;
    this.#end().onResponseError(this, error);
  }

  /** Acknowledges a quarter of the window at a time: a frame per chunk would cost as much as the chunk. */
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
    this.#end().onResponseEnd(this, trailers);
  }

  /** Drops all references to the request (see proto/slot-list.ts for the reason) and returns the listener. */
  #end(): UpstreamListener {
    const listener = this.#listener;
    const left = this.#left;
    this.isOver = true;
    this.#kept = [];
    this.#listener = nobody;
    this.#left = () => {};
    left();
    return listener;
  }
}

function headOf(payload: Buffer): { status: number; headers: Record<string, string>; rest: Buffer } {
  const { fields, rest } = readFields(payload);
  const headers: Record<string, string> = {};
  for (let i = 1; i + 1 < fields.length; i += 2) headers[fields[i] as string] = fields[i + 1] as string;
  const status = Number(fields[0]);
  if (!Number.isInteger(status) || status < 200 || status > 599) throw new BadFrame("a response without a status");
  return { status, headers, rest };
}
