// Counts of positive values in buckets that are 1 % wide: memory does not grow with the number of values.

const perE = 100;
/** Smallest value, 1 microsecond where values are milliseconds. */
const offset = Math.ceil(Math.log(1e3) * perE);

export class Histogram {
  readonly #buckets: number[] = [];
  count = 0;
  sum = 0;

  add(value: number): void {
    const at = Math.max(0, Math.round(Math.log(Math.max(value, 1e-3)) * perE) + offset);
    while (this.#buckets.length <= at) this.#buckets.push(0);
    this.#buckets[at] = (this.#buckets[at] as number) + 1;
    this.count += 1;
    this.sum += value;
  }

  merge(other: Histogram): void {
    while (this.#buckets.length < other.#buckets.length) this.#buckets.push(0);
    for (const [at, count] of other.#buckets.entries()) this.#buckets[at] = (this.#buckets[at] as number) + count;
    this.count += other.count;
    this.sum += other.sum;
  }

  /** 0 without values. */
  quantile(share: number): number {
    let left = Math.max(1, Math.ceil(this.count * share));
    for (let at = 0; at < this.#buckets.length; at++) {
      left -= this.#buckets[at] as number;
      if (left <= 0) return Math.exp((at - offset) / perE);
    }
    return 0;
  }

  get mean(): number {
    return this.count === 0 ? 0 : this.sum / this.count;
  }
}
