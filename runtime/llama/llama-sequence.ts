// One sequence of the context with what its KV cache holds.
import type { LlamaContext, LlamaContextSequence, Token, TokenPredictor } from "node-llama-cpp";
import type { Sampling } from "../server/text-engine.ts";
import type { PoolSequence } from "./sequence-pool.ts";

/** Guesses tokens ahead; a right guess saves a step, a wrong one costs nothing but its check. */
export interface Predictor extends TokenPredictor {
  /** Off where a token's chances depend on the tokens before it: guesses are checked against one state of them. */
  isActive: boolean;
  /** Drops what it remembers of earlier text before its next use. */
  forget(): void;
}

export class LlamaSequence implements PoolSequence {
  lastUsed = 0;
  /** As of the last release; not kept up while a request runs. */
  cachedTokens: readonly number[] = [];
  /** Scope of the requests whose tokens it holds. */
  cacheScope = "";
  readonly inner: LlamaContextSequence;
  readonly place: number;
  readonly #predictor: Predictor | undefined;
  readonly #now: () => number;
  #kept: { readonly key: string; readonly untilMs: number } | undefined;

  /** `place`: its number in the context. `now`: milliseconds of a clock that only goes forward. */
  constructor(
    inner: LlamaContextSequence,
    place: number,
    predictor?: Predictor,
    now: () => number = () => performance.now(),
  ) {
    this.inner = inner;
    this.place = place;
    this.#predictor = predictor;
    this.#now = now;
  }

  get cacheKey(): string | undefined {
    return this.#kept && this.#kept.untilMs > this.#now() ? this.#kept.key : undefined;
  }

  /** Until when its cache is kept, on the same clock. */
  get keptUntilMs(): number {
    return this.#kept?.untilMs ?? 0;
  }

  async save(path: string): Promise<number> {
    return (await this.inner.saveStateToFile(path)).fileSize;
  }

  /** The file must be of this process: a state of other weights could end it. */
  async restore(path: string): Promise<void> {
    await this.inner.loadStateFromFile(path, { acceptRisk: true });
  }

  keepUnder(key: string | undefined, ttlMs: number): void {
    this.#kept = key === undefined ? undefined : { key, untilMs: this.#now() + ttlMs };
  }

  allowPredictions(isActive: boolean): void {
    if (this.#predictor) this.#predictor.isActive = isActive;
  }

  /** Guessed tokens since the sequence exists. */
  get predictions(): { readonly accepted: number; readonly refuted: number } {
    const { validated, refuted } = this.inner.tokenPredictions;
    return { accepted: validated, refuted };
  }

  get length(): number {
    return this.inner.nextTokenIndex;
  }

  /** Clears it for a request of another scope, the draft model's part included. */
  async enter(cacheScope: string): Promise<void> {
    if (this.cacheScope === cacheScope) return;
    await this.clear();
    this.#predictor?.forget();
    this.cachedTokens = [];
    this.cacheScope = cacheScope;
  }

  /** Drops what does not belong to `prompt`; returns how many of its tokens need no evaluation. */
  async reuse(prompt: readonly number[]): Promise<number> {
    // The last prompt token is evaluated in any case: its logits are the first answer.
    await this.inner.adaptStateToTokens(prompt.slice(0, -1) as Token[], false);
    return this.inner.nextTokenIndex;
  }

  async clear(): Promise<void> {
    await this.inner.clearHistory();
  }

  async evaluate(tokens: readonly number[]): Promise<void> {
    await this.inner.evaluateWithoutGeneratingNewTokens(tokens as Token[]);
  }

  /** Call when a request is done with it. A failed one may have left anything behind. */
  async settle(hasFailed: boolean): Promise<void> {
    if (hasFailed) await this.clear();
    // Tokens that were guessed right and are no longer needed.
    else if (this.#predictor) {
      const end = this.inner.nextTokenIndex;
      await this.inner.eraseContextTokenRanges([{ start: end, end: end + 1 }]);
    }
    this.cachedTokens = this.inner.contextTokens;
  }
}

/** Call for each number of the context in order: the library numbers its sequences as they are created. */
export function newSequence(context: LlamaContext, place: number, predictor: Predictor | undefined): LlamaSequence {
  return new LlamaSequence(context.getSequence(predictor ? { tokenPredictor: predictor } : {}), place, predictor);
}

/** Penalties change with every token, so a guess further on would be checked against an old state of them. */
export function canPredict({ presencePenalty, frequencyPenalty, repetitionPenalty }: Sampling): boolean {
  return presencePenalty === 0 && frequencyPenalty === 0 && repetitionPenalty === 1;
}
