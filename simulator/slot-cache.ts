// The key-value cache of an engine that keeps the latest request of each batch slot, as our runtime and llama.cpp's server do: slots
// share nothing, so requests that run at the same time evaluate a common beginning once each.
import type { PromptCache, Segment } from "./segment-cache.ts";

interface Slot {
  /** Segments of its latest request, with the output in the last one. */
  held: readonly Segment[];
  heldTokens: number;
  isIdle: boolean;
  lastUsed: number;
}

export class SlotCache implements PromptCache {
  readonly #slots: readonly Slot[];
  readonly #bySegments = new Map<readonly Segment[], Slot>();
  #uses = 0;

  constructor(slots: number) {
    this.#slots = Array.from({ length: slots }, () => ({ held: [], heldTokens: 0, isIdle: true, lastUsed: 0 }));
  }

  /** Undefined when no slot is idle. */
  enter(segments: readonly Segment[], outputTokens: number): number | undefined {
    const tokens = tokensOf(segments);
    const found = this.#slotFor(segments, tokens);
    if (!found) return undefined;
    const { slot, cached } = found;
    const last = segments.at(-1) as Segment;
    slot.held = [...segments.slice(0, -1), { id: last.id, tokens: last.tokens + outputTokens }];
    slot.heldTokens = tokens + outputTokens;
    slot.isIdle = false;
    this.#bySegments.set(segments, slot);
    return cached;
  }

  cachedOf(segments: readonly Segment[]): number {
    return this.#slotFor(segments, tokensOf(segments))?.cached ?? 0;
  }

  #slotFor(segments: readonly Segment[], tokens: number): { readonly slot: Slot; readonly cached: number } | undefined {
    let best: Slot | undefined;
    let cached = -1;
    let oldest: Slot | undefined;
    for (const slot of this.#slots) {
      if (!slot.isIdle) continue;
      const common = commonTokens(slot.held, segments);
      if (!best || common > cached || (common === cached && slot.lastUsed < best.lastUsed)) {
        best = slot;
        cached = common;
      }
      if (!oldest || slot.lastUsed < oldest.lastUsed) oldest = slot;
    }
    if (!best || !oldest) return undefined;
    // As runtime/llama/choose-sequence.ts: a slot is not taken from a long conversation for a short common beginning.
    const isWorthIt = cached > 0 && cached * 2 >= Math.min(best.heldTokens, tokens);
    return isWorthIt ? { slot: best, cached } : { slot: oldest, cached: commonTokens(oldest.held, segments) };
  }

  leave(segments: readonly Segment[]): void {
    const slot = this.#bySegments.get(segments);
    if (!slot) return;
    this.#bySegments.delete(segments);
    slot.isIdle = true;
    slot.lastUsed = ++this.#uses;
  }
}

function tokensOf(segments: readonly Segment[]): number {
  let tokens = 0;
  for (const segment of segments) tokens += segment.tokens;
  return tokens;
}

function commonTokens(held: readonly Segment[], segments: readonly Segment[]): number {
  let common = 0;
  for (const [at, { id, tokens }] of segments.entries()) {
    const own = held[at];
    if (own?.id !== id) return common;
    common += Math.min(own.tokens, tokens);
    if (own.tokens !== tokens) return common;
  }
  return common;
}
