// The key-value cache of one instance, by segments: parts of prompts that always appear whole and in the same order, such as a system
// prompt or a conversation. A segment is cached up to some length; the least recently used ones are cut first, from their ends.

export interface Segment {
  readonly id: number;
  readonly tokens: number;
}

export interface PromptCache {
  /**
   * Reserves a prompt and `outputTokens` at the end of its last segment. Returns the tokens that were cached before; undefined
   * when running requests leave too little space.
   */
  enter(segments: readonly Segment[], outputTokens: number): number | undefined;
  /** Tokens that `enter` would find cached now. */
  cachedOf(segments: readonly Segment[]): number;
  /** Releases what `enter` reserved for the same array. */
  leave(segments: readonly Segment[]): void;
}

interface Entry {
  readonly id: number;
  tokens: number;
  /** Running requests that need it. */
  users: number;
  /** Neighbours in the order of the last use. */
  older: Entry;
  newer: Entry;
}

export class SegmentCache implements PromptCache {
  readonly #capacity: number;
  readonly #entries = new Map<number, Entry>();
  /** End of a ring: its `newer` is the least recently used entry. Links cost less than new places in the map. */
  readonly #end: Entry = endOfRing();
  #used = 0;
  #pinned = 0;
  /** Entries of the segments of the prompt that enters, so that each is looked up once. */
  readonly #found: (Entry | undefined)[] = [];

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  enter(segments: readonly Segment[], outputTokens: number): number | undefined {
    let cached = 0;
    let isWhole = true;
    let added = 0;
    let newlyPinned = 0;
    for (let i = 0; i < segments.length; i++) {
      const { id, tokens } = segments[i] as Segment;
      const entry = this.#entries.get(id);
      this.#found[i] = entry;
      const has = entry?.tokens ?? 0;
      if (isWhole) {
        cached += Math.min(has, tokens);
        isWhole = has >= tokens;
      }
      const needed = tokens + (i === segments.length - 1 ? outputTokens : 0);
      const grows = Math.max(0, needed - has);
      added += grows;
      newlyPinned += entry && entry.users > 0 ? grows : Math.max(has, needed);
    }
    // Something larger than the whole cache still runs, by itself.
    if (this.#pinned > 0 && this.#pinned + newlyPinned > this.#capacity) return undefined;
    for (let i = 0; i < segments.length; i++) {
      const { id, tokens } = segments[i] as Segment;
      const needed = tokens + (i === segments.length - 1 ? outputTokens : 0);
      const entry = this.#latest(id, this.#found[i]);
      entry.tokens = Math.max(entry.tokens, needed);
      entry.users += 1;
    }
    this.#used += added;
    this.#pinned += newlyPinned;
    this.#evict();
    return cached;
  }

  cachedOf(segments: readonly Segment[]): number {
    let cached = 0;
    for (const { id, tokens } of segments) {
      const has = this.#entries.get(id)?.tokens ?? 0;
      cached += Math.min(has, tokens);
      if (has < tokens) break;
    }
    return cached;
  }

  leave(segments: readonly Segment[]): void {
    for (const { id } of segments) {
      const entry = this.#entries.get(id);
      if (!entry) continue;
      entry.users -= 1;
      if (entry.users === 0) this.#pinned -= entry.tokens;
    }
  }

  /** The entry, as the most recently used one. */
  #latest(id: number, found: Entry | undefined): Entry {
    const end = this.#end;
    // A prompt may name a new segment twice.
    let entry = found ?? this.#entries.get(id);
    if (entry) unlink(entry);
    else {
      entry = { id, tokens: 0, users: 0, older: end, newer: end };
      this.#entries.set(id, entry);
    }
    entry.older = end.older;
    entry.newer = end;
    end.older.newer = entry;
    end.older = entry;
    return entry;
  }

  #evict(): void {
    if (this.#used <= this.#capacity) return;
    for (let entry = this.#end.newer; entry !== this.#end; entry = entry.newer) {
      if (entry.users > 0) continue;
      const cut = Math.min(entry.tokens, this.#used - this.#capacity);
      entry.tokens -= cut;
      this.#used -= cut;
      if (entry.tokens === 0) {
        this.#entries.delete(entry.id);
        unlink(entry);
      }
      if (this.#used <= this.#capacity) return;
    }
  }
}

function endOfRing(): Entry {
  const end: Partial<Entry> = { id: 0, tokens: 0, users: 0 };
  end.older = end as Entry;
  end.newer = end as Entry;
  return end as Entry;
}

function unlink({ older, newer }: Entry): void {
  older.newer = newer;
  newer.older = older;
}
