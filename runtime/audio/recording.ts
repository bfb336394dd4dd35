// A whole recording while a request needs it: one channel of 16-bit samples, 230 MB for two hours at 16 kHz. Whoever computes
// takes the stretch it works on as numbers around -1..1, twice as large each.
const pieceBytes = 1024 * 1024;

export class Recording {
  /** Samples per second. */
  readonly rate: number;
  readonly #pieces: Int16Array<ArrayBuffer>[] = [];
  #bytes = 0;

  constructor(rate: number) {
    this.rate = rate;
  }

  /** In samples. */
  get length(): number {
    return Math.floor(this.#bytes / 2);
  }

  get seconds(): number {
    return this.length / this.rate;
  }

  /** Bytes of little-endian samples, which may be cut anywhere. */
  append(bytes: Uint8Array): void {
    for (let taken = 0; taken < bytes.length; ) {
      const at = this.#bytes % pieceBytes;
      if (at === 0) this.#pieces.push(new Int16Array(pieceBytes / 2));
      const piece = this.#pieces.at(-1) as Int16Array;
      const part = bytes.subarray(taken, taken + pieceBytes - at);
      new Uint8Array(piece.buffer).set(part, at);
      taken += part.length;
      this.#bytes += part.length;
    }
  }

  /** A copy of the samples from `first` up to `end`, or to the recording's own end. */
  samples(first: number, end: number): Float32Array<ArrayBuffer> {
    const out = new Float32Array(Math.max(0, Math.min(end, this.length) - first));
    const perPiece = pieceBytes / 2;
    for (let made = 0; made < out.length; ) {
      const at = first + made;
      const piece = this.#pieces[Math.floor(at / perPiece)] as Int16Array;
      const part = piece.subarray(at % perPiece, (at % perPiece) + out.length - made);
      for (let i = 0; i < part.length; i += 1) out[made + i] = (part[i] as number) / 0x8000;
      made += part.length;
    }
    return out;
  }
}
