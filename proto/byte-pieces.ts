/** Pieces joined at once: a buffer takes 100 bytes besides its own, and a hostile server sends pieces of one byte. */
const maxPieces = 1_024;

/** Bytes that arrive in pieces and are read together. */
export class BytePieces {
  #bytes = 0;
  #joined: Buffer[] = [];
  #last: Buffer[] = [];

  get bytes(): number {
    return this.#bytes;
  }

  add(piece: Buffer): void {
    this.#bytes += piece.length;
    this.#last.push(piece);
    if (this.#last.length < maxPieces) return;
    this.#joined.push(Buffer.concat(this.#last));
    this.#last = [];
  }

  /** Returns all bytes and keeps none. */
  take(): Buffer {
    const pieces = [...this.#joined, ...this.#last];
    this.#bytes = 0;
    this.#joined = [];
    this.#last = [];
    return pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces);
  }
}
