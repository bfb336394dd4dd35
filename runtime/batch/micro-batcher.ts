// Runs items of many requests in batches, concurrently on several lanes. A failing item fails alone; an item that is cancelled
// before it runs never runs. The next batch starts before the results of the last one are delivered.
import { BatchQueue, type Waiting } from "./batch-queue.ts";
import { planRuns, type RunCosts } from "./plan-runs.ts";
import { currentTenant } from "./tenant.ts";

export interface BatcherOptions<Item, Result> {
  readonly maxBatchSize: number;
  readonly latencyBudgetMs: number;
  readonly costs: RunCosts;
  readonly lengthOf: (item: Item) => number;
  /** Lanes for concurrent batches, one at a time on each; without it batches run one by one. */
  readonly lanes?: Lanes<Item>;
  /** One result per item, in order; throws when the run as a whole failed. */
  readonly run: (items: readonly Item[], lane: number) => Promise<readonly Result[]>;
  readonly isMemoryFailure: (error: unknown) => boolean;
  readonly observe: (event: BatchEvent) => void;
}

export interface Lanes<Item> {
  /** They are numbered from 0. */
  readonly count: number;
  /** Returns one of the free lanes; there is at least one. */
  readonly choose: (items: readonly Item[], free: readonly number[]) => number;
}

export type BatchEvent =
  | { readonly kind: "started"; readonly queuedMs: number }
  | { readonly kind: "ran"; readonly items: number; readonly ms: number }
  | { readonly kind: "split"; readonly items: number; readonly isMemory: boolean };

interface Ticket<Item, Result> extends Pick<PromiseWithResolvers<Result>, "resolve" | "reject"> {
  readonly item: Item;
}

export class MicroBatcher<Item, Result> {
  readonly #options: BatcherOptions<Item, Result>;
  readonly #queue: BatchQueue<Ticket<Item, Result>>;
  readonly #lanes: Lanes<Item>;
  #free: readonly number[];
  #running = 0;
  #isWoken = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: BatcherOptions<Item, Result>) {
    this.#options = options;
    this.#queue = new BatchQueue(options);
    this.#lanes = options.lanes ?? { count: 1, choose: () => 0 };
    this.#free = Array.from({ length: this.#lanes.count }, (_, lane) => lane);
  }

  get running(): number {
    return this.#running;
  }

  get waiting(): number {
    return this.#queue.size;
  }

  /**
   * One result per item, in order. Once all items are done, rejects with the error of the first failing one; rejects with the
   * signal's reason, and what did not start by then never will.
   */
  async submit(items: readonly Item[], signal: AbortSignal): Promise<Result[]> {
    signal.throwIfAborted();
    const [tenant, request] = [currentTenant(), {}];
    const sinceMs = performance.now();
    const added: Waiting<Ticket<Item, Result>>[] = [];
    const outcomes = items.map((item) => {
      const { promise, resolve, reject } = Promise.withResolvers<Result>();
      const weight = this.#options.lengthOf(item);
      const waiting = { item: { item, resolve, reject }, tenant, request, weight, sinceMs };
      added.push(waiting);
      this.#queue.add(waiting);
      return promise;
    });
    this.#wake();
    const { promise: cancelled, reject } = Promise.withResolvers<never>();
    const onAbort = () => {
      for (const waiting of added) this.#queue.remove(waiting);
      reject(signal.reason);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      return (await Promise.race([Promise.allSettled(outcomes), cancelled])).map((outcome) => {
        if (outcome.status === "fulfilled") return outcome.value;
        throw outcome.reason;
      });
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  /** Runs after this turn of the event loop, so that items that arrive together share a batch. */
  #wake(): void {
    if (this.#isWoken || this.#free.length === 0) return;
    this.#isWoken = true;
    setImmediate(() => {
      this.#isWoken = false;
      this.#serve();
    });
  }

  #serve(): void {
    clearTimeout(this.#timer);
    while (this.#free.length > 0) {
      const now = performance.now();
      // Divide the items among the lanes: one that took all would leave the others idle.
      const next = this.#queue.next(now, Math.ceil((this.#queue.size + this.#running) / this.#lanes.count));
      if (next.kind === "wait") this.#timer = setTimeout(() => this.#serve(), next.untilMs - now);
      if (next.kind !== "run") return;
      void this.#run(next.batch);
    }
  }

  async #run(batch: readonly Waiting<Ticket<Item, Result>>[]): Promise<void> {
    const { observe, lengthOf, costs } = this.#options;
    const tickets = batch.map(({ item }) => item);
    const items = tickets.map(({ item }) => item);
    const lane = this.#lanes.choose(items, this.#free);
    this.#free = this.#free.filter((one) => one !== lane);
    this.#running += batch.length;
    const startedAt = performance.now();
    for (const { sinceMs } of batch) observe({ kind: "started", queuedMs: startedAt - sinceMs });
    let settle = () => {};
    for (const run of planRuns(items.map(lengthOf), costs)) {
      const running = this.#runTogether(
        run.map((index) => tickets[index] as Ticket<Item, Result>),
        lane,
      );
      settle();
      settle = await running;
      this.#running -= run.length;
    }
    this.#free = [...this.#free, lane].sort((a, b) => a - b);
    this.#serve();
    settle();
  }

  /** Halves a failing batch, down to single items, so that only the failing item fails. Returns the function that settles it. */
  async #runTogether(tickets: readonly Ticket<Item, Result>[], lane: number): Promise<() => void> {
    const { observe, run, isMemoryFailure } = this.#options;
    const startedAt = performance.now();
    try {
      const results = await run(
        tickets.map(({ item }) => item),
        lane,
      );
      const ms = performance.now() - startedAt;
      this.#queue.ran(tickets.length, ms);
      observe({ kind: "ran", items: tickets.length, ms });
      return () => {
        for (const [index, { resolve }] of tickets.entries()) resolve(results[index] as Result);
      };
    } catch (error) {
      if (tickets.length === 1) return () => tickets[0]?.reject(error);
      const isMemory = isMemoryFailure(error);
      if (isMemory) this.#queue.ranOutOfMemory(tickets.length);
      observe({ kind: "split", items: tickets.length, isMemory });
      const half = Math.ceil(tickets.length / 2);
      const settleFirst = await this.#runTogether(tickets.slice(0, half), lane);
      settleFirst();
      return this.#runTogether(tickets.slice(half), lane);
    }
  }
}
