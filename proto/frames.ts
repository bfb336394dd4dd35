// Multiplexes requests over one connection between gateway and agent. A connection per request costs each side system calls,
// parsing and stream objects; here the output of one event-loop turn leaves as one write. It starts as an HTTP/1.1 upgrade on
// the agent's port (`sharedProtocol`); agents without support for it receive plain HTTP.
//
// A frame: length of the payload (u32), stream (u32), kind (u8), payload; numbers are big-endian. Streams are numbered by
// the gateway, one per request, and never used again on that connection.
import type { Duplex } from "node:stream";

export const sharedProtocol = "stoker-frames/1";
/** Path of the upgrade request. */
export const sharedPath = "/frames";

export const frameKind = {
  /** Gateway: fields (path, content type, ticket), then the body's first bytes. More follow as `data` until `end`. */
  request: 1,
  /** Gateway: the same with the whole body. */
  wholeRequest: 2,
  /** Agent: fields (status, then header names and values in turn) of an answer that goes on with `data`. */
  head: 3,
  /** Agent: fields, then the whole body. */
  whole: 4,
  data: 5,
  end: 6,
  /** Gateway: the response is no longer needed. Agent: the response breaks off here. */
  reset: 7,
  /** Gateway: number of bytes (u32) of the response that the client has read. */
  credit: 8,
  ping: 9,
  pong: 10,
} as const;
export type FrameKind = (typeof frameKind)[keyof typeof frameKind];

/** Maximum bytes of a response in flight without credit. */
export const answerWindow = 256 * 1024;
/** Longer payloads are sent in pieces, so that one large body does not delay the others. */
export const maxPayload = 64 * 1024;
const headerBytes = 9;
/** A head with its ticket, beside the payload. */
const maxFrame = maxPayload + 64 * 1024;

export class BadFrame extends Error {
  override readonly name = "BadFrame";
}

/** Texts without line breaks, one after the other, before what follows them. */
export function withFields(fields: readonly string[], rest: Buffer): Buffer {
  const text = fields.join("\n");
  const bytes = Buffer.allocUnsafe(4 + text.length + rest.length);
  bytes.writeUInt32BE(text.length, 0);
  bytes.write(text, 4, "latin1");
  rest.copy(bytes, 4 + text.length);
  return bytes;
}

/** Throws BadFrame. */
export function readFields(payload: Buffer): { readonly fields: string[]; readonly rest: Buffer } {
  const end = payload.length < 4 ? -1 : 4 + payload.readUInt32BE(0);
  if (end < 0 || end > payload.length) throw new BadFrame("fields that go beyond their frame");
  return { fields: payload.toString("latin1", 4, end).split("\n"), rest: payload.subarray(end) };
}

export interface FrameListener {
  frame(kind: number, stream: number, payload: Buffer): void;
  /** The other side takes bytes again after `send` had answered false. */
  drained(): void;
  /** Once: the connection is gone. */
  closed(error: Error): void;
}

const pingEveryMs = 5_000;
const silentMs = 15_000;
const noBytes = Buffer.alloc(0);

/** Frames over a socket; used by both sides. Disconnects a peer that is silent for 15 s or sends invalid frames. */
export class FrameSocket {
  readonly #socket: Duplex;
  readonly #listener: FrameListener;
  readonly #timer: NodeJS.Timeout;
  #out: Buffer[] = [];
  #outBytes = 0;
  #rest: Buffer[] = [];
  #restBytes = 0;
  #heardMs = performance.now();
  #lookedMs = performance.now();
  #isClosed = false;

  /** `first`: what came with the upgrade. */
  constructor(socket: Duplex, first: Buffer, listener: FrameListener) {
    this.#socket = socket;
    this.#listener = listener;
    if (first.length > 0) socket.unshift(first);
    socket.on("data", (bytes: Buffer) => this.#take(bytes));
    socket.on("drain", () => listener.drained());
    socket.on("error", (error) => this.#close(error));
    socket.on("close", () => this.#close(new Error("the connection was closed")));
    socket.on("end", () => this.close(new Error("the other side closed the connection")));
    this.#timer = setInterval(() => this.#look(), pingEveryMs).unref();
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Sent with the rest of this turn. False: the socket's buffer is full; `drained` is called when it is not. */
  send(kind: FrameKind, stream: number, payload: Buffer = noBytes): boolean {
    if (this.#isClosed || this.#socket.writableEnded) return true;
    const isSmall = payload.length <= 16_384;
    const head = Buffer.allocUnsafe(isSmall ? headerBytes + payload.length : headerBytes);
    head.writeUInt32BE(payload.length, 0);
    head.writeUInt32BE(stream, 4);
    head[8] = kind;
    if (this.#out.length === 0) setImmediate(flush, this);
    if (isSmall) payload.copy(head, headerBytes);
    this.#out.push(head);
    if (!isSmall) this.#out.push(payload);
    this.#outBytes += headerBytes + payload.length;
    return !this.#socket.writableNeedDrain && this.#outBytes <= 1_048_576;
  }

  /** Writes what this turn brought so far. */
  flush(): void {
    if (this.#out.length === 0 || this.#isClosed || this.#socket.writableEnded) return;
    const all = this.#out.length === 1 ? (this.#out[0] as Buffer) : Buffer.concat(this.#out, this.#outBytes);
    const wasFull = this.#outBytes > 1_048_576;
    this.#out = [];
    this.#outBytes = 0;
    if (this.#socket.write(all) && wasFull) this.#listener.drained();
  }

  /** Closes once everything sent has left; the caller limits the time. */
  end(): void {
    if (this.#isClosed || this.#socket.writableEnded) return;
    this.flush();
    this.#socket.end();
  }

  close(error: Error): void {
    this.#socket.destroy();
    this.#close(error);
  }

  #take(bytes: Buffer): void {
    this.#heardMs = performance.now();
    let all = bytes;
    if (this.#restBytes > 0) {
      this.#rest.push(bytes);
      this.#restBytes += bytes.length;
      const first = this.#rest[0] as Buffer;
      // A long frame comes in many pieces: they are joined once, when it is whole.
      if (first.length >= headerBytes && this.#restBytes < headerBytes + first.readUInt32BE(0)) return;
      all = Buffer.concat(this.#rest, this.#restBytes);
      this.#rest = [];
      this.#restBytes = 0;
    }
    let at = 0;
    while (all.length - at >= headerBytes) {
      const length = all.readUInt32BE(at);
      if (length > maxFrame) {
        this.close(new BadFrame(`a frame of ${length} bytes`));
        return;
      }
      const end = at + headerBytes + length;
      if (end > all.length) break;
      this.#handle(all[at + 8] as number, all.readUInt32BE(at + 4), all.subarray(at + headerBytes, end));
      if (this.#isClosed) return;
      at = end;
    }
    if (at === all.length) return;
    this.#rest.push(all.subarray(at));
    this.#restBytes = all.length - at;
  }

  #handle(kind: number, stream: number, payload: Buffer): void {
    if (kind === frameKind.ping) {
      this.send(frameKind.pong, stream);
      return;
    }
    if (kind === frameKind.pong) return;
    try {
      this.#listener.frame(kind, stream, payload);
    } catch (error) {
      // Invalid input of one peer must end only its own connection.
      this.close(error as Error);
    }
  }

  #look(): void {
    const now = performance.now();
    // This process was suspended: data that the peer sent in the meantime is not read yet.
    if (now - this.#lookedMs > 2 * pingEveryMs) this.#heardMs = now - pingEveryMs;
    this.#lookedMs = now;
    const silence = now - this.#heardMs;
    if (silence >= silentMs) this.close(new Error("the other side has been silent for too long"));
    else if (silence >= pingEveryMs - 100) this.send(frameKind.ping, 0);
  }

  #close(error: Error): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearInterval(this.#timer);
    this.#out = [];
    this.#rest = [];
    this.#listener.closed(error);
  }
}

function flush(socket: FrameSocket): void {
  socket.flush();
}
