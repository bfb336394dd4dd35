// Where an answer goes: the client's side of a relay. Implemented by the HTTP edge; bytes reach it by callback.

import type { ServiceError } from "../service-error.ts";

export interface SinkListener {
  /** The client went away before the answer ended. */
  clientGone(): void;
  /** What came of the answer was let go, and nothing of it will be delivered. */
  dropped(why: ServiceError): void;
  /** The client takes less than comes: pause until `drained`. */
  stalled(): void;
  drained(): void;
}

export interface AnswerSink {
  /** Headers have left: no status can be given any more. */
  readonly hasStarted: boolean;
  readonly isGone: boolean;
  /** One at a time: the attempt that writes now. */
  listener: SinkListener | undefined;
  /** A complete answer in one piece. */
  whole(status: number, contentType: string, body: Buffer): void;
  /** Headers of a complete answer that comes in pieces; `contentLength` undefined when the engine did not say. */
  begin(status: number, contentType: string, contentLength: string | undefined): void;
  /** Bytes of a begun answer or, without `begin`, of a stream: its headers leave with the first of them. */
  write(chunk: Buffer): void;
  end(): void;
  /** Cuts a client that does not read. */
  abandon(): void;
}
