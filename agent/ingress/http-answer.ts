// An answer over a connection of its own.
import type { ServerResponse } from "node:http";
import { usageHeader } from "../../proto/usage.ts";
import type { Answer } from "./answer.ts";

const eventStream = "text/event-stream; charset=utf-8";
const streamHeaders = [
  "cache-control",
  "no-cache",
  "x-accel-buffering",
  "no",
  "transfer-encoding",
  "chunked",
  "trailer",
  usageHeader,
];

export class HttpAnswer implements Answer {
  readonly #res: ServerResponse;
  #isFull = false;
  #contentType = eventStream;
  #abandoned: (() => void) | undefined;

  constructor(res: ServerResponse) {
    this.#res = res;
  }

  get hasStarted(): boolean {
    return this.#res.headersSent;
  }

  get status(): number {
    return this.#res.statusCode;
  }

  get isCut(): boolean {
    return this.#res.destroyed;
  }

  get isClosed(): boolean {
    return this.#res.closed;
  }

  onClose(listener: () => void): void {
    this.#res.on("close", listener);
  }

  onAbandoned(listener: (() => void) | undefined): void {
    const res = this.#res;
    // A reset that follows the last byte is not seen here; only gateways of an older version connect this way.
    if (listener && !this.#abandoned)
      res.on("close", () => {
        if (!res.writableFinished) this.#abandoned?.();
      });
    this.#abandoned = listener;
  }

  whole(status: number, headers: readonly string[], body: Buffer): void {
    const res = this.#res;
    if (res.headersSent || res.destroyed) return;
    res.writeHead(status, [...headers, "content-length", String(body.length)]);
    // As a string head and body leave in one piece; Latin-1 keeps every byte.
    if (body.length < 65_536) res.end(body.toString("latin1"), "latin1");
    else res.end(body);
  }

  begin(contentType: string): void {
    this.#contentType = contentType;
  }

  write(pieces: readonly Buffer[], drained: () => void): boolean {
    const res = this.#res;
    if (res.destroyed) return true;
    const bytes = chunkOf(pieces, noTail);
    const isFirst = !res.headersSent;
    if (isFirst) this.#head();
    // After the head a chunk goes straight to the socket: the way through ServerResponse costs as much as the send itself.
    const sink = isFirst || !res.socket ? res : res.socket;
    if (sink.write(bytes)) return true;
    if (!this.#isFull)
      sink.once("drain", () => {
        this.#isFull = false;
        drained();
      });
    this.#isFull = true;
    return false;
  }

  end(last: Buffer, usage: string | undefined): void {
    const res = this.#res;
    if (res.destroyed) return;
    this.#head();
    const trailer = usage === undefined ? "" : `${usageHeader}: ${usage}\r\n`;
    res.end(chunkOf([last], `0\r\n${trailer}\r\n`));
  }

  cut(): void {
    this.#res.destroy();
  }

  #head(): void {
    if (this.#res.headersSent) return;
    this.#res.writeHead(200, ["content-type", this.#contentType, ...streamHeaders]);
    this.#res.chunkedEncoding = false;
  }
}

const noTail = "";

/**
 * One HTTP chunk in one buffer, with `tail` after it. node:http would send each chunk as three pieces, and gathering them cost
 * more than all other work on a chunk.
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
