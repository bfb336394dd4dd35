// Queue for the next batch: its order and the time of its start. Pure: time is a parameter (ms, monotonic).
// A batch starts at once unless another item is expected so soon that waiting costs less than a run of its own would.
import { type Entry, FairLines } from "./fair-lines.ts";

export interface QueueLimits {
  readonly maxBatchSize: number;
  /** Maximum delay of an item while nothing runs. */
  readonly latencyBudgetMs: number;
}

export interface Waiting<Item> extends Entry {
  readonly item: Item;
  readonly sinceMs: number;
}

export type Next<Item> =
  | { readonly kind: "run"; readonly batch: readonly Waiting<Item>[] }
  | { readonly kind: "wait"; readonly untilMs: number }
  | { readonly kind: "empty" };

const decay = 0.9;
/** Runs without a failure after which twice as many items are tried again. */
const runsToGrow = 64;

export class BatchQueue<Item> {
  readonly #limits: QueueLimits;
  readonly #lines = new FairLines<Waiting<Item>>();
  /** Items that one batch may hold now; less than configured after memory ran out. */
  #limit: number;
  #goodRuns = 0;
  #gapMs = Number.POSITIVE_INFINITY;
  #lastArrivalMs = Number.NEGATIVE_INFINITY;
  /** Decayed sums over runs (items, ms): what a run costs by itself is where the line meets zero items. */
  #sums = { n: 0, x: 0, y: 0, xx: 0, xy: 0 };

  constructor(limits: QueueLimits) {
    this.#limits = limits;
    this.#limit = limits.maxBatchSize;
  }

  get size(): number {
    return this.#lines.size;
  }

  add(waiting: Waiting<Item>): void {
    this.#lines.add(waiting);
    const gap = waiting.sinceMs - this.#lastArrivalMs;
    this.#gapMs = Number.isFinite(this.#gapMs) ? this.#gapMs * decay + gap * (1 - decay) : gap;
    this.#lastArrivalMs = waiting.sinceMs;
  }

  /** Takes an item out that was not started. */
  remove(waiting: Waiting<Item>): boolean {
    return this.#lines.remove(waiting);
  }

  /** `max`: limit of this batch if others can run concurrently. */
  next(nowMs: number, max = Number.POSITIVE_INFINITY): Next<Item> {
    if (this.#lines.size === 0) return { kind: "empty" };
    const limit = Math.min(this.#limit, max);
    const untilMs = this.#lines.size >= limit ? nowMs : this.#worthWaitingFor();
    return untilMs > nowMs ? { kind: "wait", untilMs } : { kind: "run", batch: this.#take(limit) };
  }

  ran(items: number, ms: number): void {
    const { n, x, y, xx, xy } = this.#sums;
    this.#sums = {
      n: n * decay + 1,
      x: x * decay + items,
      y: y * decay + ms,
      xx: xx * decay + items * items,
      xy: xy * decay + items * ms,
    };
    this.#goodRuns += 1;
    if (this.#goodRuns >= runsToGrow && this.#limit < this.#limits.maxBatchSize) {
      this.#limit = Math.min(this.#limits.maxBatchSize, this.#limit * 2);
      this.#goodRuns = 0;
    }
  }

  ranOutOfMemory(items: number): void {
    this.#limit = Math.max(1, Math.min(this.#limit, Math.floor(items / 2)));
    this.#goodRuns = 0;
  }

  /** Fixed cost of a run, independent of its items. */
  get #runCostMs(): number {
    const { n, x, y, xx, xy } = this.#sums;
    const spread = n * xx - x * x;
    if (n === 0 || spread < 1e-9) return 0;
    const perItem = (n * xy - x * y) / spread;
    return Math.max(0, (y - perItem * x) / n);
  }

  #worthWaitingFor(): number {
    const oldestMs = this.#oldestMs();
    const saves = this.#runCostMs;
    const expectedMs = this.#gapMs * 2;
    // Waiting for the next item delays all waiting ones.
    if (expectedMs * this.#lines.size >= saves) return oldestMs;
    return Math.min(this.#lastArrivalMs + expectedMs, oldestMs + this.#limits.latencyBudgetMs);
  }

  #oldestMs(): number {
    let oldest = Number.POSITIVE_INFINITY;
    for (const { sinceMs } of this.#lines) oldest = Math.min(oldest, sinceMs);
    return oldest;
  }

  #take(limit: number): Waiting<Item>[] {
    const batch: Waiting<Item>[] = [];
    while (batch.length < limit) {
      const waiting = this.#lines.next();
      if (!waiting) break;
      this.#lines.take(waiting);
      batch.push(waiting);
    }
    return batch;
  }
}
