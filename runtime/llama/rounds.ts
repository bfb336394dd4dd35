// One batch at a time: every sequence submits its next step, and the next round begins when all of them are done.
// Without it a sequence that samples a moment faster starts a batch of its own, and two then take turns for good.
export class Rounds {
  readonly #onRound: (size: number, seconds: number) => void;
  #waiting: (() => void)[] = [];
  #open = 0;
  #isPlanned = false;

  /** `onRound` hears how many steps ran together and for how long. */
  constructor(onRound: (size: number, seconds: number) => void) {
    this.#onRound = onRound;
  }

  run<T>(step: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#waiting.push(() => {
        step()
          .then(resolve, reject)
          .finally(() => this.#leave());
      });
      if (this.#open === 0) this.#plan();
    });
  }

  #startedAt = 0;
  #size = 0;

  #plan(): void {
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    setImmediate(() => {
      this.#isPlanned = false;
      const steps = this.#waiting;
      this.#waiting = [];
      this.#open = steps.length;
      this.#size = steps.length;
      this.#startedAt = performance.now();
      for (const step of steps) step();
    });
  }

  #leave(): void {
    this.#open -= 1;
    if (this.#open > 0) return;
    this.#onRound(this.#size, (performance.now() - this.#startedAt) / 1000);
    if (this.#waiting.length > 0) this.#plan();
  }
}
