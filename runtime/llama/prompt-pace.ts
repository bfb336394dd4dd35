// Limits the prompt tokens of one step. A step holds up every stream of its batch and no request can be cancelled
// within it, so its length follows the machine: short where a core is slow or shared, as long as the batch on a GPU.
const targetSeconds = 0.25;
const shortest = 16;

export class PromptPace {
  readonly #longest: number;
  #tokens: number;

  constructor(longest: number) {
    this.#longest = longest;
    this.#tokens = Math.min(64, longest);
  }

  /** Tokens of the next step. */
  get tokens(): number {
    return this.#tokens;
  }

  /** A step with a full share of prompt tokens took so long; at most a factor of two at once. */
  observe(seconds: number): void {
    const factor = Math.min(2, Math.max(0.5, targetSeconds / Math.max(seconds, 0.001)));
    this.#tokens = Math.round(Math.min(this.#longest, Math.max(shortest, this.#tokens * factor)));
  }
}
