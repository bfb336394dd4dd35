// Destination of an answer, independent of the transport: a response of node:http, or a stream of a shared connection.

export interface Answer {
  readonly hasStarted: boolean;
  /** 200 until a status is set. */
  readonly status: number;
  /** The gateway disconnected, or the answer was cut. */
  readonly isCut: boolean;
  /** Final: the answer was sent completely, or cut. */
  readonly isClosed: boolean;
  onClose(listener: () => void): void;
  /**
   * Called at most once, when the gateway abandons the request before it has read the whole answer. It may follow the
   * close: the end of the answer and the gateway's reset can cross on the wire. Undefined removes the listener.
   */
  onAbandoned(listener: (() => void) | undefined): void;
  /** Header names and values in turn, without content-length. */
  whole(status: number, headers: readonly string[], body: Buffer): void;
  /** Sets the content type of a streamed answer that is not an event stream. Call it before the first `write`. */
  begin(contentType: string): void;
  /** Sends bytes of a stream; the first call also sends the head. Returns false when the next call must wait for `drained`. */
  write(pieces: readonly Buffer[], drained: () => void): boolean;
  /** Sends the last bytes of the stream, and its usage figures if they were recorded. */
  end(last: Buffer, usage: string | undefined): void;
  cut(): void;
}
