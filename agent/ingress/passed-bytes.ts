// An answer without structure, such as audio: its pieces pass as they come, but for the last one, which waits until the
// usage is on record.

export class PassedBytes {
  /** Bytes went towards the client. */
  hasPassed = false;
  readonly #out: (bytes: Buffer) => void;
  #held: Buffer | undefined;

  constructor(out: (bytes: Buffer) => void) {
    this.#out = out;
  }

  push(piece: Buffer): void {
    if (piece.length === 0) return;
    if (this.#held) {
      this.hasPassed = true;
      this.#out(this.#held);
    }
    this.#held = piece;
  }

  /** The last bytes. */
  tail(): Buffer {
    return this.#held ?? Buffer.alloc(0);
  }
}
