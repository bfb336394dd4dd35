// A decoded recording during a request: one channel of 16-bit samples, read forward. Holds only the requested range and the
// decoded pieces after it, so that memory does not grow with the recording's length.

/** Bytes of little-endian 16-bit samples, in order. */
export interface PcmSource {
  /** Undefined at the end. Throws AudioRefusal; the signal's reason when the request ends. */
  next(): Promise<Uint8Array | undefined>;
  /** Releases what decodes. May be called again. */
  close(): void;
}

export class Recording {
  /** Samples per second. */
  readonly rate: number;
  /** In samples. */
  readonly length: number;
  readonly #open: () => PcmSource;
  #source: PcmSource | undefined;
  #pieces: Int16Array[] = [];
  /** First sample of the first piece; samples decoded so far. */
  #first = 0;
  #decoded = 0;
  #oddByte: number | undefined;

  /** `open` is called once, with the first requested samples. */
  constructor(rate: number, length: number, open: () => PcmSource) {
    this.rate = rate;
    this.length = length;
    this.#open = open;
  }

  get seconds(): number {
    return this.length / this.rate;
  }

  get held(): number {
    return this.#pieces.reduce((sum, piece) => sum + piece.length, 0);
  }

  /**
   * A copy of the samples from `first` up to `end`, or to the recording's own end, as numbers around -1..1. `first` must not
   * be before that of an earlier call: what lies before it is forgotten. Where the audio breaks off early, the rest is silence.
   */
  async samples(first: number, end: number): Promise<Float32Array<ArrayBuffer>> {
    const out = new Float32Array(Math.max(0, Math.min(end, this.length) - first));
    if (first < this.#first) throw new RangeError("a recording is read forward only");
    this.#source ??= this.#open();
    while (this.#decoded < first + out.length) {
      const bytes = await this.#source.next();
      if (!bytes) break;
      this.#append(bytes);
      this.#forgetBefore(first);
    }
    this.#forgetBefore(first);
    let at = this.#first;
    for (const piece of this.#pieces) {
      const from = Math.max(first, at);
      const until = Math.min(first + out.length, at + piece.length);
      for (let i = from; i < until; i++) out[i - first] = (piece[i - at] as number) / 0x8000;
      at += piece.length;
    }
    return out;
  }

  close(): void {
    this.#source?.close();
    this.#pieces = [];
  }

  /** Bytes may be cut anywhere. */
  #append(bytes: Uint8Array): void {
    const odd = this.#oddByte === undefined ? 0 : 1;
    const whole = new Uint8Array((bytes.length + odd) & ~1);
    if (this.#oddByte !== undefined) whole[0] = this.#oddByte;
    whole.set(bytes.subarray(0, whole.length - odd), odd);
    this.#oddByte = (bytes.length + odd) % 2 === 1 ? bytes.at(-1) : undefined;
    const samples = new Int16Array(whole.buffer);
    this.#decoded += samples.length;
    this.#pieces.push(samples);
  }

  #forgetBefore(first: number): void {
    for (let [piece] = this.#pieces; piece && this.#first + piece.length <= first; [piece] = this.#pieces) {
      this.#first += piece.length;
      this.#pieces.shift();
    }
  }
}

export function heldRecording(rate: number, parts: readonly Uint8Array[]): Recording {
  const bytes = parts.reduce((sum, part) => sum + part.length, 0);
  let at = 0;
  return new Recording(rate, Math.floor(bytes / 2), () => ({
    next: async () => parts[at++],
    close: () => {},
  }));
}
