/**
 * Tokens of the last minute, in buckets of one second. A bucket expires when it is more than a minute old, so no span of 60
 * s counts less than was used in it. Seconds are whole seconds of a monotonic clock.
 */
export class TokenWindow {
  /** Tokens in the window at the last given second. */
  sum = 0;
  readonly #buckets = new Float64Array(bucketCount);
  #second: number;
  #lastUsed = Number.NEGATIVE_INFINITY;

  constructor(second: number) {
    this.#second = second;
  }

  advance(second: number): void {
    const steps = Math.min(second - this.#second, bucketCount);
    for (let i = 1; i <= steps; i++) {
      const at = (this.#second + i) % bucketCount;
      this.sum -= this.#buckets[at] as number;
      this.#buckets[at] = 0;
    }
    if (steps > 0) this.#second = second;
  }

  add(tokens: number, second: number): void {
    if (tokens <= 0) return;
    this.advance(second);
    this.#buckets[this.#second % bucketCount] = (this.#buckets[this.#second % bucketCount] as number) + tokens;
    this.sum += tokens;
    this.#lastUsed = this.#second;
  }

  /** Seconds until the window is empty. */
  secondsUntilEmpty(): number {
    return this.sum === 0 ? 0 : Math.max(0, this.#lastUsed + bucketCount - this.#second);
  }

  /** Seconds until less than `limit` is in the window if nothing is added; 0 when it is already. */
  secondsUntilBelow(limit: number): number {
    let rest = this.sum;
    for (let age = bucketCount - 1; age >= 0 && rest >= limit; age--) {
      rest -= this.#buckets[(this.#second - age + bucketCount) % bucketCount] as number;
      if (rest < limit) return bucketCount - age;
    }
    return 0;
  }
}

const bucketCount = 61;
