// What a router could do that knew every cache exactly and at once, as events of an engine's cache would tell it at best. It bounds the
// gain of such events: everything else is the product's router.
import { PrefixIndex } from "../control-plane/inference/prefix-index.ts";
import type { PromptBlocks } from "../control-plane/inference/prompt-blocks.ts";
import type { Segment } from "./segment-cache.ts";

export class KnownCaches extends PrefixIndex {
  readonly #cachedAt: (slot: number, segments: readonly Segment[]) => number;
  #segments: readonly Segment[] = [];
  #tokens = 1;

  /** `cachedAt`: prompt tokens that the instance would take from its cache now. */
  constructor(cachedAt: (slot: number, segments: readonly Segment[]) => number) {
    super();
    this.#cachedAt = cachedAt;
  }

  /** Names the prompt that is routed next. */
  ask(segments: readonly Segment[], promptTokens: number): void {
    this.#segments = segments;
    this.#tokens = promptTokens;
  }

  override match(blocks: PromptBlocks, slots: Int32Array, count: number, shares: Float64Array): boolean {
    const isNew = super.match(blocks, slots, count, shares);
    for (let i = 0; i < count; i++)
      shares[i] = Math.min(1, this.#cachedAt(slots[i] as number, this.#segments) / this.#tokens);
    return isNew;
  }
}
