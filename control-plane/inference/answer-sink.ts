// Destination of a response: the client's side of a relay. Implemented by the HTTP edge; bytes reach it by callback.
import type { ServiceError } from "../service-error.ts";

export interface SinkListener {
  /** The client disconnected before the response ended. */
  clientGone(): void;
  /** The buffered bytes were dropped; nothing of the response will be delivered. */
  dropped(why: ServiceError): void;
  /** The client reads too slowly: pause until `drained`. */
  stalled(): void;
  drained(): void;
}

export interface AnswerSink {
  /** The headers were sent: the status cannot change any more. */
  readonly hasStarted: boolean;
  readonly isGone: boolean;
  /** The attempt that writes now. */
  listener: SinkListener | undefined;
  /** Set by `whole` and `end` of a sink that passes the response on later; resolves when it has. */
  readonly sent?: Promise<void> | undefined;
  /** Sends a complete response in one piece. */
  whole(status: number, contentType: string, body: Buffer): void;
  /** Sends the headers of a complete response in pieces; `contentLength` is undefined if the engine sent none. */
  begin(status: number, contentType: string, contentLength: string | undefined): void;
  /** Sends bytes of a begun response or, without `begin`, of a stream, whose headers are sent with the first bytes. */
  write(chunk: Buffer): void;
  end(): void;
  /** Disconnects a client that does not read. */
  abandon(): void;
}
