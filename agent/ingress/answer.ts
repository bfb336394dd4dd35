// Where an answer goes, whatever carries it: a response of node:http, or a stream of a shared connection.

export interface Answer {
  /** A status has left. */
  readonly hasStarted: boolean;
  /** 200 before one was given. */
  readonly status: number;
  /** The gateway is gone, or the answer was cut. */
  readonly isCut: boolean;
  /** Nothing more happens to it: ended and taken, or cut. */
  readonly isClosed: boolean;
  /** Called once, when it is closed. */
  onClose(listener: () => void): void;
  /** Header names and values in turn, without content-length. */
  whole(status: number, headers: readonly string[], body: Buffer): void;
  /** What comes piece by piece is no event stream but of this type. Before the first `write`. */
  begin(contentType: string): void;
  /** Bytes of a stream, whose head leaves with the first of them. False: wait for `drained` before the next. */
  write(pieces: readonly Buffer[], drained: () => void): boolean;
  /** The stream's last bytes, and its usage figures where they are on record. */
  end(last: Buffer, usage: string | undefined): void;
  /** Breaks it off. */
  cut(): void;
}
