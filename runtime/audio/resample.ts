// Changes the sample rate of a stream: a windowed sinc whose phases are computed once, continuous over the pieces it is fed.
// Pure. Lowering the rate widens the filter, so that nothing above the new half rate folds back.
const zeroCrossings = 16;

export class Resampler {
  readonly #up: number;
  readonly #down: number;
  readonly #half: number;
  /** One filter per position between two input samples. */
  readonly #phases: readonly Float32Array[];
  #kept: Float32Array;
  /** Input samples dropped from the front of `#kept`. */
  #dropped = 0;
  #received = 0;
  #made = 0;

  constructor(from: number, to: number) {
    const divisor = gcd(from, to);
    this.#up = to / divisor;
    this.#down = from / divisor;
    const cutoff = Math.min(1, to / from);
    this.#half = Math.ceil(zeroCrossings / cutoff);
    this.#phases = Array.from({ length: this.#up }, (_, phase) => filter(phase / this.#up, this.#half, cutoff));
    // Silence before the first sample, so that every output has its whole neighbourhood.
    this.#kept = new Float32Array(this.#half);
    this.#dropped = -this.#half;
  }

  push(samples: Float32Array): Float32Array {
    this.#received += samples.length;
    return this.#run(samples);
  }

  /** Returns the remaining output; the total is exactly as long as the input. */
  end(): Float32Array {
    const total = Math.ceil((this.#received * this.#up) / this.#down);
    const rest = this.#run(new Float32Array(this.#half + 1));
    const surplus = this.#made - total;
    return surplus > 0 ? rest.subarray(0, Math.max(0, rest.length - surplus)) : rest;
  }

  #run(samples: Float32Array): Float32Array {
    const input = new Float32Array(this.#kept.length + samples.length);
    input.set(this.#kept);
    input.set(samples, this.#kept.length);
    const reach = this.#dropped + input.length - this.#half;
    const last = Math.max(this.#made, Math.ceil((reach * this.#up) / this.#down));
    const out = new Float32Array(last - this.#made);
    for (let i = 0; i < out.length; i += 1) {
      const position = (this.#made + i) * this.#down;
      const whole = Math.floor(position / this.#up);
      const taps = this.#phases[position % this.#up] as Float32Array;
      const start = whole - this.#half + 1 - this.#dropped;
      let sum = 0;
      for (let tap = 0; tap < taps.length; tap += 1) sum += (taps[tap] as number) * (input[start + tap] as number);
      out[i] = sum;
    }
    this.#made = last;
    const next = Math.floor((this.#made * this.#down) / this.#up) - this.#half + 1;
    const keepFrom = Math.max(0, Math.min(input.length, next - this.#dropped));
    this.#kept = input.slice(keepFrom);
    this.#dropped += keepFrom;
    return out;
  }
}

export function resample(samples: Float32Array, from: number, to: number): Float32Array {
  if (from === to) return samples;
  const resampler = new Resampler(from, to);
  const body = resampler.push(samples);
  const tail = resampler.end();
  const out = new Float32Array(body.length + tail.length);
  out.set(body);
  out.set(tail, body.length);
  return out;
}

/** Taps for an output that lies `fraction` after an input sample, scaled so that a constant stays itself. */
function filter(fraction: number, half: number, cutoff: number): Float32Array {
  const taps = new Float32Array(2 * half);
  let sum = 0;
  for (let tap = 0; tap < taps.length; tap += 1) {
    const distance = tap - half + 1 - fraction;
    const window = 0.5 + 0.5 * Math.cos((Math.PI * distance) / half);
    const value = Math.abs(distance) >= half ? 0 : sinc(distance * cutoff) * window;
    taps[tap] = value;
    sum += value;
  }
  return taps.map((value) => value / sum);
}

const sinc = (x: number) => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));

function gcd(a: number, b: number): number {
  return b === 0 ? a : gcd(b, a % b);
}
