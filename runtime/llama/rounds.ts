// One batch at a time: every sequence submits its next step, and the next round begins when all of them are done.
// Without it a sequence that samples a moment faster starts a batch of its own, and two then take turns for good.
// The steps begin in the order of their sequences: llama.cpp evaluates in one pass over the weights only
// rising sequence numbers without a gap; 0, 1, 2, 3 is one pass, 0, 2, 1, 3 are four.

interface Step {
  /** Its sequence's number in the context. */
  readonly place: number;
  start(): void;
}

export class Rounds {
  readonly #onRound: (size: number, seconds: number) => void;
  #waiting: Step[] = [];
  #open = 0;
  #isPlanned = false;
  #startedAt = 0;
  #size = 0;
  /** Number of the latest round. */
  number = 0;

  /** `onRound` receives the number of steps that ran together and their duration. */
  constructor(onRound: (size: number, seconds: number) => void) {
    this.#onRound = onRound;
  }

  run<T>(place: number, step: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const start = () => {
        step()
          .then(resolve, reject)
          .finally(() => this.#leave());
      };
      this.#waiting.push({ place, start });
      if (this.#open === 0) this.#plan();
    });
  }

  #plan(): void {
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    setImmediate(() => {
      this.#isPlanned = false;
      const steps = this.#waiting.sort((a, b) => a.place - b.place);
      this.#waiting = [];
      this.#open = steps.length;
      this.#size = steps.length;
      this.number += 1;
      this.#startedAt = performance.now();
      for (const { start } of steps) start();
    });
  }

  #leave(): void {
    this.#open -= 1;
    if (this.#open > 0) return;
    this.#onRound(this.#size, (performance.now() - this.#startedAt) / 1000);
    if (this.#waiting.length > 0) this.#plan();
  }
}

const targetSeconds = 0.25;
const shortest = 16;

/**
 * Limits the prompt tokens of one step. A step holds up every stream of its batch and no request can be cancelled within it, so
 * its length follows the machine: short where a core is slow or shared, as long as the batch on a GPU.
 */
export class PromptPace {
  readonly #longest: number;
  #tokens: number;
  #observed = 0;

  constructor(longest: number) {
    this.#longest = longest;
    this.#tokens = Math.min(64, longest);
  }

  get tokens(): number {
    return this.#tokens;
  }

  /**
   * A step with a full share of prompt tokens took so long; at most a factor of two at once. `round`: its number, from 1 on. A round in
   * which several prompts were evaluated counts once: their factors together would swing between the limits.
   */
  observe(seconds: number, round: number): void {
    if (round === this.#observed) return;
    this.#observed = round;
    const factor = Math.min(2, Math.max(0.5, targetSeconds / Math.max(seconds, 0.001)));
    this.#tokens = Math.round(Math.min(this.#longest, Math.max(shortest, this.#tokens * factor)));
  }
}
