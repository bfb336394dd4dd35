// An answer that no client gets: this edge reads it itself.
import type { AnswerSink, SinkListener } from "../inference/answer-sink.ts";

const mostBytes = 1024 * 1024;

export class KeptAnswer implements AnswerSink {
  readonly hasStarted = false;
  readonly isGone = false;
  listener: SinkListener | undefined;
  #parts: Buffer[] = [];
  #bytes = 0;

  whole(_status: number, _contentType: string, body: Buffer): void {
    this.write(body);
  }

  begin(): void {
    this.#parts = [];
    this.#bytes = 0;
  }

  write(chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes <= mostBytes) this.#parts.push(chunk);
  }

  end(): void {}

  abandon(): void {
    this.#parts = [];
  }

  /** Undefined where it was no JSON. */
  json(): unknown {
    try {
      return JSON.parse(Buffer.concat(this.#parts).toString());
    } catch {
      return undefined;
    }
  }
}
