// The client's side of a stream: what one event-loop turn brought goes out as one write; a reader that is slower than
// the engine pauses the engine.
import type { ServerResponse } from "node:http";
import { usageHeader } from "../../proto/usage.ts";

const headers = [
  "content-type",
  "text/event-stream; charset=utf-8",
  "cache-control",
  "no-cache",
  "x-accel-buffering",
  "no",
  "transfer-encoding",
  "chunked",
  "trailer",
  usageHeader,
];

export interface Source {
  pause(): void;
  resume(): void;
}

export class StreamAnswer {
  /** The client has not taken what was written: the engine is paused. */
  isStalled = false;
  readonly #res: ServerResponse;
  readonly #source: Source;
  #turn: Buffer[] = [];

  constructor(res: ServerResponse, source: Source) {
    this.#res = res;
    this.#source = source;
  }

  /** Leaves with the rest of this turn. */
  write(bytes: Buffer): void {
    if (this.#turn.length === 0) process.nextTick(flush, this);
    this.#turn.push(bytes);
  }

  /** Writes what this turn brought so far. */
  flush(): void {
    const turn = this.#turn;
    if (turn.length === 0) return;
    this.#turn = [];
    const res = this.#res;
    if (res.destroyed) return;
    const bytes = chunkOf(turn, noTail);
    const isFirst = !res.headersSent;
    if (isFirst) this.#head();
    // After the head a chunk goes straight to the socket: the way through ServerResponse costs as much as the send itself.
    const sink = isFirst || !res.socket ? res : res.socket;
    if (sink.write(bytes) || this.isStalled) return;
    this.isStalled = true;
    this.#source.pause();
    sink.once("drain", () => {
      this.isStalled = false;
      this.#source.resume();
    });
  }

  /** The last bytes and the figures; `usage` undefined when they are not on record. */
  end(last: Buffer | string, usage: string | undefined): void {
    const res = this.#res;
    this.flush();
    if (res.destroyed) return;
    this.#head();
    const trailer = usage === undefined ? "" : `${usageHeader}: ${usage}\r\n`;
    res.end(chunkOf([Buffer.from(last)], `0\r\n${trailer}\r\n`));
  }

  #head(): void {
    if (this.#res.headersSent) return;
    this.#res.writeHead(200, headers);
    this.#res.chunkedEncoding = false;
  }
}

const noTail = "";

/**
 * One HTTP chunk in one buffer, with `tail` after it. Framed here and not by node:http, which sends each chunk as three
 * pieces: their gathering cost more than everything else done to a chunk.
 */
function chunkOf(pieces: readonly Buffer[], tail: string): Buffer {
  let length = 0;
  for (const piece of pieces) length += piece.length;
  if (length === 0) return Buffer.from(tail, "latin1");
  const size = length.toString(16);
  const bytes = Buffer.allocUnsafe(size.length + 2 + length + 2 + tail.length);
  let at = bytes.write(`${size}\r\n`, 0, "latin1");
  for (const piece of pieces) at += piece.copy(bytes, at);
  at += bytes.write("\r\n", at, "latin1");
  if (tail !== noTail) bytes.write(tail, at, "latin1");
  return bytes;
}

function flush(answer: StreamAnswer): void {
  answer.flush();
}
