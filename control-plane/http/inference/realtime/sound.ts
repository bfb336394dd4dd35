// Sound of a session: formats on the wire to 16-bit samples, a buffer of them, and a file for an engine. Pure.
import { wavHeader } from "../../../../proto/wav.ts";

const bytesPerSample = 2;

export type SoundFormat = "audio/pcm" | "audio/pcmu" | "audio/pcma";

/** Samples per second. */
export const rateOf = (format: SoundFormat): number => (format === "audio/pcm" ? 24_000 : 8_000);

/** Returns little-endian 16-bit samples; undefined for half a sample. */
export function samplesOf(format: SoundFormat, bytes: Buffer): Buffer | undefined {
  if (format === "audio/pcm") return bytes.length % bytesPerSample === 0 ? bytes : undefined;
  const table = format === "audio/pcmu" ? muLaw : aLaw;
  const samples = Buffer.alloc(bytes.length * bytesPerSample);
  for (let i = 0; i < bytes.length; i += 1)
    samples.writeInt16LE(table[bytes[i] as number] as number, i * bytesPerSample);
  return samples;
}

// ITU-T G.711: sign, three bits of exponent, four of mantissa.

const muLaw = Int16Array.from({ length: 256 }, (_, coded) => {
  const bits = ~coded & 0xff;
  const magnitude = ((((bits & 0x0f) << 3) + 0x84) << ((bits >> 4) & 0x07)) - 0x84;
  return bits & 0x80 ? -magnitude : magnitude;
});

const aLaw = Int16Array.from({ length: 256 }, (_, coded) => {
  const bits = coded ^ 0x55;
  const exponent = (bits >> 4) & 0x07;
  const mantissa = ((bits & 0x0f) << 4) + (exponent === 0 ? 8 : 0x108);
  const magnitude = exponent > 1 ? mantissa << (exponent - 1) : mantissa;
  return bits & 0x80 ? magnitude : -magnitude;
});

const minBufferBytes = 64 * 1024;
/** Maximum size of a buffer relative to its samples: beyond it the memory of dropped samples is freed, because only samples count. */
const maxUnusedShare = 4;

/** Samples by their position since the start of the session. Appending many small pieces copies each byte a constant number of times. */
export class SampleBuffer {
  /** Position of the first sample. */
  start = 0;
  #bytes = Buffer.alloc(0);
  #from = 0;
  #to = 0;

  get end(): number {
    return this.start + this.length;
  }

  get length(): number {
    return (this.#to - this.#from) / bytesPerSample;
  }

  get byteLength(): number {
    return this.#to - this.#from;
  }

  append(samples: Buffer): void {
    if (this.#to + samples.length > this.#bytes.length)
      this.#replace(Math.max(minBufferBytes, (this.byteLength + samples.length) * 2));
    samples.copy(this.#bytes, this.#to);
    this.#to += samples.length;
  }

  /** Forgets samples before this position. */
  dropBefore(position: number): void {
    const count = Math.min(this.length, Math.max(0, position - this.start));
    this.start += count;
    this.#from += count * bytesPerSample;
    if (this.#from === this.#to) this.clear();
    else if (this.#bytes.length > minBufferBytes + maxUnusedShare * this.byteLength) this.#replace(this.byteLength);
  }

  /** Returns the samples before this position, and forgets them. */
  takeBefore(position: number): Buffer {
    const count = Math.min(this.length, Math.max(0, position - this.start));
    const taken = Buffer.from(this.#bytes.subarray(this.#from, this.#from + count * bytesPerSample));
    this.dropBefore(this.start + count);
    return taken;
  }

  clear(): void {
    this.start = this.end;
    this.#bytes = Buffer.alloc(0);
    this.#from = 0;
    this.#to = 0;
  }

  #replace(capacity: number): void {
    const length = this.byteLength;
    const bytes = Buffer.alloc(capacity);
    this.#bytes.copy(bytes, 0, this.#from, this.#to);
    this.#bytes = bytes;
    this.#from = 0;
    this.#to = length;
  }
}

/** Returns a WAV file of one channel. */
export const wavOf = (samples: Buffer, rate: number): Buffer =>
  Buffer.concat([wavHeader(rate, samples.length), samples]);
