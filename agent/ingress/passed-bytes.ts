// Raw answer, such as audio: its pieces pass as they arrive, except the last one, which waits until the usage is recorded. Of
// events, only those after the one that ends the answer wait: an event may be followed by seconds of silence.

/** Possible beginnings of a line of an event stream. */
const fields = ["data:", "event:", "id:", "retry:", ":", "\n", "\r\n"] as const;
const longestField = 6;
/** In the last events of speech and transcripts. */
const endMarks = ["[DONE]", "speech.audio.done", "transcript.text.done"] as const;

/** Maximum bytes that wait after such an event: a long transcript. */
const maxHeldBytes = 4 * 1024 * 1024;
/** Event of an engine that failed during its answer. */
const errorEvent = /^data: ?\{ ?"error": ?\{/m;

export class PassedBytes {
  /** Bytes were sent to the client. */
  hasPassed = false;
  /** True until the first byte arrives. */
  isEmpty = true;
  /** The engine reported an error as an event. */
  hasFailed = false;
  readonly #hasEvents: boolean;
  readonly #out: (bytes: Buffer) => void;
  #held: Buffer | undefined;

  constructor(contentType: string, out: (bytes: Buffer) => void) {
    this.#hasEvents = contentType.startsWith("text/event-stream");
    this.#out = out;
  }

  /** Returns false when the first piece of a reply with the type of an event stream is not one. */
  mayBegin(piece: Buffer): boolean {
    if (!this.#hasEvents || !this.isEmpty) return true;
    const start = piece.toString("latin1", 0, longestField);
    return fields.some((field) => field.startsWith(start) || start.startsWith(field));
  }

  push(piece: Buffer): void {
    if (piece.length === 0) return;
    this.isEmpty = false;
    const passes = this.#hasEvents ? this.#eventsBeforeEnd(piece) : this.#held;
    if (!this.#hasEvents) this.#held = piece;
    if (!passes) return;
    this.hasPassed = true;
    this.#out(passes);
  }

  /** Returns the piece if the answer goes on after it, and holds it otherwise. */
  #eventsBeforeEnd(piece: Buffer): Buffer | undefined {
    if (errorEvent.test(piece.toString("latin1", 0, 256))) this.hasFailed = true;
    if (!this.#held && !endMarks.some((mark) => piece.includes(mark))) return piece;
    const held = this.#held ? Buffer.concat([this.#held, piece]) : piece;
    this.#held = held.length > maxHeldBytes ? Buffer.alloc(0) : held;
    return held.length > maxHeldBytes ? held : undefined;
  }

  tail(): Buffer {
    return this.#held ?? Buffer.alloc(0);
  }
}
