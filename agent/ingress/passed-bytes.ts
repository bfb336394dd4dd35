// Raw answer, such as audio: its pieces pass as they arrive, except the last one, which waits until the usage is recorded.

/** Possible beginnings of a line of an event stream. */
const fields = ["data:", "event:", "id:", "retry:", ":", "\n", "\r\n"] as const;
const longestField = 6;

export class PassedBytes {
  /** Bytes were sent to the client. */
  hasPassed = false;
  readonly #hasEvents: boolean;
  readonly #out: (bytes: Buffer) => void;
  #held: Buffer | undefined;

  constructor(contentType: string, out: (bytes: Buffer) => void) {
    this.#hasEvents = contentType.startsWith("text/event-stream");
    this.#out = out;
  }

  /** True until the first byte arrives. */
  get isEmpty(): boolean {
    return this.#held === undefined;
  }

  /** Returns false when the first piece of a reply with the type of an event stream is not one. */
  mayBegin(piece: Buffer): boolean {
    if (!this.#hasEvents || !this.isEmpty) return true;
    const start = piece.toString("latin1", 0, longestField);
    return fields.some((field) => field.startsWith(start) || start.startsWith(field));
  }

  push(piece: Buffer): void {
    if (piece.length === 0) return;
    if (this.#held) {
      this.hasPassed = true;
      this.#out(this.#held);
    }
    this.#held = piece;
  }

  tail(): Buffer {
    return this.#held ?? Buffer.alloc(0);
  }
}
