// Output tokens per second over the last ten seconds, without a timer.

const seconds = 10;

export class TokenRate {
  readonly #clock: () => number;
  readonly #buckets = new Float64Array(seconds);
  #second = 0;
  /** Total output tokens. */
  total = 0;

  /** `clock`: monotonic ms. */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  add(tokens: number): void {
    this.#turn();
    this.total += tokens;
    const at = this.#second % seconds;
    this.#buckets[at] = (this.#buckets[at] as number) + tokens;
  }

  perSecond(): number {
    this.#turn();
    return this.#buckets.reduce((sum, tokens) => sum + tokens, 0) / seconds;
  }

  #turn(): void {
    const now = Math.floor(this.#clock() / 1000);
    const passed = Math.min(seconds, now - this.#second);
    for (let i = 0; i < passed; i++) this.#buckets[(now - i) % seconds] = 0;
    if (passed > 0) this.#second = now;
  }
}
