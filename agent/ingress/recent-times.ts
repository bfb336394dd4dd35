// Times of recent requests at one instance, of which reports have the 95th percentile.

/** Requests count for this long. */
const windowMs = 15_000;
const maxTimes = 512;

export class RecentTimes {
  readonly #clock: () => number;
  /** Oldest first. */
  readonly #times: { readonly atMs: number; readonly ms: number }[] = [];

  constructor(clock: () => number) {
    this.#clock = clock;
  }

  add(ms: number): void {
    this.#times.push({ atMs: this.#clock(), ms });
    if (this.#times.length > maxTimes) this.#times.shift();
  }

  /** Milliseconds; undefined: no request within the window. */
  p95(): number | undefined {
    const fromMs = this.#clock() - windowMs;
    const first = this.#times.findIndex(({ atMs }) => atMs >= fromMs);
    this.#times.splice(0, first < 0 ? this.#times.length : first);
    if (this.#times.length === 0) return undefined;
    const sorted = this.#times.map(({ ms }) => ms).sort((a, b) => a - b);
    return Math.round(sorted[Math.ceil(sorted.length * 0.95) - 1] as number);
  }
}
