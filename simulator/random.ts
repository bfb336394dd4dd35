// Random numbers with a seed, so that a run can be repeated.

export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 up to, not including, 1 (mulberry32). */
  readonly next = (): number => {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };

  /** Exponential distribution. */
  wait(mean: number): number {
    return -mean * Math.log(1 - this.next());
  }

  /** Log-normal distribution with this mean; `spread`: standard deviation of the logarithm. */
  size(mean: number, spread = 0.6): number {
    const normal = Math.sqrt(-2 * Math.log(1 - this.next())) * Math.cos(2 * Math.PI * this.next());
    return Math.max(1, Math.round(mean * Math.exp(spread * normal - (spread * spread) / 2)));
  }
}
