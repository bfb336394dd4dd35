// Buffers a complete response, rewrites it and sends it in one piece.
import { BytePieces } from "../../../proto/byte-pieces.ts";
import type { AnswerSink } from "../../inference/answer-sink.ts";
import { type AnswerFlow, AnswerShare, type ResponseBuffer } from "../../inference/response-buffer.ts";
import type { ServiceError } from "../../service-error.ts";
import type { RenderedError } from "../errors/render-error.ts";
import type { ClientSink } from "./client-sink.ts";
import { ForwardingSink } from "./forwarding-sink.ts";

/** Enough for hours of speech; bounds a response that never ends. */
const maxBytes = 256 * 1024 * 1024;

export interface WholeAnswer {
  readonly contentType: string;
  readonly body: Buffer;
}

export interface SentAnswer {
  readonly contentType: string;
  readonly body: Buffer | string;
}

type Render = (answer: WholeAnswer) => SentAnswer | Promise<SentAnswer>;

export class BufferedSink extends ForwardingSink implements AnswerSink, AnswerFlow {
  readonly #render: Render;
  readonly #broken: ((error: unknown) => RenderedError) | undefined;
  readonly #buffer: ResponseBuffer;
  #contentType = "application/json";
  #status = 200;
  readonly #parts = new BytePieces();
  #bytes = 0;
  #isOver = false;
  /** Undefined until something is kept: most responses arrive in one piece, and are rendered at once. */
  #share: AnswerShare | undefined;

  /** `broken`: renders the error if `render` throws because the engine sent something else. A promise of it must not reject. */
  constructor(
    client: ClientSink,
    buffer: ResponseBuffer,
    render: Render = (answer) => answer,
    broken?: (error: unknown) => RenderedError,
  ) {
    super(client);
    this.#buffer = buffer;
    this.#render = render;
    this.#broken = broken;
  }

  pause(): void {
    this.listener?.stalled();
  }

  resume(): void {
    this.listener?.drained();
  }

  giveUp(error: ServiceError): void {
    this.#isOver = true;
    this.#parts.take();
    this.client.listener?.dropped(error);
  }

  whole(status: number, contentType: string, body: Buffer): void {
    if (this.isGone || this.#isOver) return;
    this.#share?.whole();
    let answer: SentAnswer | Promise<SentAnswer>;
    try {
      answer = this.#render({ contentType, body });
    } catch (error) {
      const refusal = this.#broken?.(error);
      if (!refusal) throw error;
      this.client.whole(refusal.status, "application/json; charset=utf-8", refusal.body);
      return;
    }
    const send = ({ contentType: type, body: rendered }: SentAnswer) => {
      if (!this.isGone) this.client.whole(status, type, rendered);
    };
    if (!(answer instanceof Promise)) {
      send(answer);
      return;
    }
    const share = this.#ownShare();
    share.whole();
    if (this.#bytes === 0) share.add(body.length);
    this.sent = answer.then(send);
  }

  begin(status: number, contentType: string): void {
    this.#status = status;
    this.#contentType = contentType;
  }

  write(chunk: Buffer): void {
    if (this.isGone || this.#isOver) return;
    this.#bytes += chunk.length;
    if (this.#bytes <= maxBytes) {
      this.#parts.add(chunk);
      this.#ownShare().add(chunk.length);
      return;
    }
    // A part of it must not be sent.
    this.#parts.take();
    this.client.abandon();
  }

  end(): void {
    this.whole(this.#status, this.#contentType, this.#parts.take());
  }

  #ownShare(): AnswerShare {
    if (!this.#share) {
      this.#share = new AnswerShare(this.#buffer, this.client.account, this);
      this.client.holds(this.#share);
    }
    return this.#share;
  }
}
