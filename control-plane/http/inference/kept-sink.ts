// Buffers a response that no connection waits for.
import { BytePieces } from "../../../proto/byte-pieces.ts";
import type { AnswerSink, SinkListener } from "../../inference/answer-sink.ts";
import { AnswerShare, type ResponseBuffer } from "../../inference/response-buffer.ts";
import type { WholeAnswer } from "./buffered-sink.ts";

/** Maximum that an agent sends of one response: hours of speech. */
const maxAnswerBytes = 64 * 1024 * 1024;

export class KeptSink implements AnswerSink {
  readonly hasStarted = false;
  listener: SinkListener | undefined;
  isGone = false;
  /** Undefined before the end, and without a response. */
  answer: WholeAnswer | undefined;
  isTooLarge = false;
  #contentType = "application/json";
  readonly #maxBytes: number;
  readonly #parts = new BytePieces();
  readonly #share: AnswerShare;
  #bytes = 0;

  /** `letGo` must be called when the response is not needed any more. */
  constructor(buffer: ResponseBuffer, account: string, maxBytes = maxAnswerBytes) {
    this.#maxBytes = maxBytes;
    this.#share = new AnswerShare(buffer, account, {
      pause: () => this.listener?.stalled(),
      resume: () => this.listener?.drained(),
      giveUp: (error) => {
        this.isGone = true;
        this.#parts.take();
        this.listener?.dropped(error);
      },
    });
  }

  whole(_status: number, contentType: string, body: Buffer): void {
    this.#share.whole();
    if (body.length > this.#maxBytes) {
      this.#refuse();
      return;
    }
    this.#share.add(body.length);
    this.answer = { contentType, body };
  }

  begin(_status: number, contentType: string): void {
    this.#contentType = contentType;
  }

  write(chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.isGone) return;
    if (this.#bytes > this.#maxBytes) {
      this.#refuse();
      return;
    }
    this.#parts.add(chunk);
    this.#share.add(chunk.length);
  }

  end(): void {
    if (this.isGone) return;
    this.#share.whole();
    this.answer = { contentType: this.#contentType, body: this.#parts.take() };
  }

  /** Releases its part of the memory budget. May be called again. */
  letGo(): void {
    this.#share.letGo();
  }

  /** Cancels the request at the instance. */
  abandon(): void {
    if (this.isGone) return;
    this.isGone = true;
    this.listener?.clientGone();
  }

  #refuse(): void {
    this.isTooLarge = true;
    this.#drop();
  }

  #drop(): void {
    this.#parts.take();
    this.#share.letGo();
    this.abandon();
  }
}
