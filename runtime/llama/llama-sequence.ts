// One sequence of the context with what its KV cache holds.
import type { LlamaContextSequence, Token } from "node-llama-cpp";
import type { PoolSequence } from "./sequence-pool.ts";

export class LlamaSequence implements PoolSequence {
  lastUsed = 0;
  /** As of the last release; not kept up while a request runs. */
  cachedTokens: readonly number[] = [];
  readonly inner: LlamaContextSequence;
  readonly #now: () => number;
  #kept: { readonly key: string; readonly untilMs: number } | undefined;

  /** `now`: milliseconds of a clock that only goes forward. */
  constructor(inner: LlamaContextSequence, now: () => number = () => performance.now()) {
    this.inner = inner;
    this.#now = now;
  }

  get cacheKey(): string | undefined {
    return this.#kept && this.#kept.untilMs > this.#now() ? this.#kept.key : undefined;
  }

  keepUnder(key: string | undefined, ttlMs: number): void {
    this.#kept = key === undefined ? undefined : { key, untilMs: this.#now() + ttlMs };
  }

  get length(): number {
    return this.inner.nextTokenIndex;
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
    this.cachedTokens = this.inner.contextTokens;
  }
}
