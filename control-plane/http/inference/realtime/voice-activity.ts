// Finds speech in a stream of samples by its loudness. Pure: the same samples give the same changes, however they are divided.

const frameSeconds = 0.02;
/** Shorter sounds, such as clicks, are not speech. */
const minSpeechFrames = 3;
/** Loudness of `threshold` 0 and 1, in dB below full scale. */
const quietestDb = -60;
const loudestDb = -20;
const bytesPerSample = 2;

export interface VoiceChange {
  readonly kind: "started" | "stopped";
  /** Sample at which speech starts, or at which the silence after it is long enough. */
  readonly at: number;
}

export interface VoiceOptions {
  readonly rate: number;
  /** Position of the first sample. */
  readonly start: number;
  /** 0 to 1: the higher, the louder speech must be. */
  readonly threshold: number;
  readonly silenceMs: number;
}

export class VoiceActivity {
  readonly #frameBytes: number;
  readonly #minPower: number;
  readonly #silenceFrames: number;
  #rest = Buffer.alloc(0);
  /** Position of the first sample that was not examined. */
  #position: number;
  #loud = 0;
  #quiet = 0;
  #isSpeech = false;

  constructor({ rate, start, threshold, silenceMs }: VoiceOptions) {
    this.#frameBytes = Math.round(rate * frameSeconds) * bytesPerSample;
    this.#minPower = (0x8000 * 10 ** ((quietestDb + threshold * (loudestDb - quietestDb)) / 20)) ** 2;
    this.#silenceFrames = Math.max(1, Math.ceil(silenceMs / (frameSeconds * 1000)));
    this.#position = start;
  }

  get isSpeech(): boolean {
    return this.#isSpeech;
  }

  /** Number of samples before the current position that may be the start of speech. */
  get pendingSamples(): number {
    return (this.#loud * this.#frameBytes + this.#rest.length) / bytesPerSample;
  }

  push(samples: Buffer): readonly VoiceChange[] {
    const bytes = this.#rest.length === 0 ? samples : Buffer.concat([this.#rest, samples]);
    const changes: VoiceChange[] = [];
    const frameSamples = this.#frameBytes / bytesPerSample;
    let at = 0;
    for (; at + this.#frameBytes <= bytes.length; at += this.#frameBytes) {
      this.#position += frameSamples;
      const kind = this.#examine(bytes, at);
      if (kind === "started") changes.push({ kind, at: this.#position - this.#loud * frameSamples });
      else if (kind === "stopped") changes.push({ kind, at: this.#position });
      if (kind) this.#loud = 0;
    }
    this.#rest = Buffer.from(bytes.subarray(at));
    return changes;
  }

  /** The segment was committed: speech that goes on starts again. */
  restart(): void {
    this.#isSpeech = false;
    this.#loud = 0;
    this.#quiet = 0;
  }

  #examine(bytes: Buffer, from: number): VoiceChange["kind"] | undefined {
    let sum = 0;
    for (let i = from; i < from + this.#frameBytes; i += bytesPerSample) sum += bytes.readInt16LE(i) ** 2;
    const isLoud = sum / (this.#frameBytes / bytesPerSample) >= this.#minPower;
    if (!this.#isSpeech) {
      this.#loud = isLoud ? this.#loud + 1 : 0;
      if (this.#loud < minSpeechFrames) return undefined;
      this.#isSpeech = true;
      this.#quiet = 0;
      return "started";
    }
    this.#quiet = isLoud ? 0 : this.#quiet + 1;
    if (this.#quiet < this.#silenceFrames) return undefined;
    this.#isSpeech = false;
    return "stopped";
  }
}
