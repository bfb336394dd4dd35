// An answer that nobody waits for on a connection: kept until it is whole.
import type { AnswerSink, SinkListener } from "../inference/answer-sink.ts";
import type { WholeAnswer } from "./buffered-sink.ts";

/** As much as an agent hands on of one answer: hours of speech. */
const mostAnswerBytes = 64 * 1024 * 1024;

export class KeptSink implements AnswerSink {
  readonly hasStarted = false;
  listener: SinkListener | undefined;
  isGone = false;
  /** Undefined before the end, and where there was none. */
  answer: WholeAnswer | undefined;
  isTooLarge = false;
  #contentType = "application/json";
  readonly #mostBytes: number;
  readonly #parts: Buffer[] = [];
  #bytes = 0;

  constructor(mostBytes = mostAnswerBytes) {
    this.#mostBytes = mostBytes;
  }

  whole(_status: number, contentType: string, body: Buffer): void {
    if (body.length > this.#mostBytes) this.#refuse();
    else this.answer = { contentType, body };
  }

  begin(_status: number, contentType: string): void {
    this.#contentType = contentType;
  }

  write(chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes <= this.#mostBytes) this.#parts.push(chunk);
    else if (!this.isTooLarge) this.#refuse();
  }

  end(): void {
    if (!this.isTooLarge) this.whole(200, this.#contentType, Buffer.concat(this.#parts));
  }

  /** Nobody wants it any more: the instance stops. */
  abandon(): void {
    if (this.isGone) return;
    this.isGone = true;
    this.listener?.clientGone();
  }

  #refuse(): void {
    this.isTooLarge = true;
    this.#parts.length = 0;
    this.abandon();
  }
}
