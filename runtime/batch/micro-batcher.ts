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
  readonly clock: () => number;
  /** Calls back once after so long, and returns what takes that back. */
  readonly timer: (callback: () => void, ms: number) => () => void;
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

export type Outcome<Result> =
  | { readonly ok: true; readonly result: Result }
  | { readonly ok: false; readonly error: unknown };

interface Ticket<Item, Result> {
  readonly item: Item;
  readonly settle: (outcome: Outcome<Result>) => void;
}

export class MicroBatcher<Item, Result> {
  readonly #options: BatcherOptions<Item, Result>;
  readonly #queue: BatchQueue<Ticket<Item, Result>>;
  readonly #lanes: Lanes<Item>;
  #free: readonly number[];
  #running = 0;
  #isWoken = false;
  #cancelTimer: (() => void) | undefined;

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

  /** One outcome per item, in order; rejects with the signal's reason, and what did not start by then never will. */
  submit(items: readonly Item[], signal: AbortSignal): Promise<Outcome<Result>[]> {
    if (signal.aborted) return Promise.reject(signal.reason);
    const [tenant, request] = [currentTenant(), {}];
    const sinceMs = this.#options.clock();
    const added: Waiting<Ticket<Item, Result>>[] = [];
    const outcomes = items.map((item) => {
      const { promise, resolve } = Promise.withResolvers<Outcome<Result>>();
      const weight = this.#options.lengthOf(item);
      const waiting = { item: { item, settle: resolve }, tenant, request, weight, sinceMs };
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
    return Promise.race([Promise.all(outcomes), cancelled]).finally(() => signal.removeEventListener("abort", onAbort));
  }

  /** Runs after this turn of the event loop, so that items that arrive together share a batch. */
  #wake(): void {
    if (this.#isWoken || this.#free.length === 0) return;
    this.#isWoken = true;
    setImmediate(() => {
      this.#isWoken = false;
      this.#look();
    });
  }

  #look(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    const { clock, timer } = this.#options;
    while (this.#free.length > 0) {
      const now = clock();
      // Divide the items among the lanes: one that took all would leave the others idle.
      const next = this.#queue.next(now, Math.ceil((this.#queue.size + this.#running) / this.#lanes.count));
      if (next.kind === "wait") this.#cancelTimer = timer(() => this.#look(), next.untilMs - now);
      if (next.kind !== "run") return;
      void this.#run(next.batch);
    }
  }

  async #run(batch: readonly Waiting<Ticket<Item, Result>>[]): Promise<void> {
    const { clock, observe, lengthOf, costs } = this.#options;
    const tickets = batch.map(({ item }) => item);
    const items = tickets.map(({ item }) => item);
    const lane = this.#lanes.choose(items, this.#free);
    this.#free = this.#free.filter((one) => one !== lane);
    this.#running += batch.length;
    const startedAt = clock();
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
    this.#look();
    settle();
  }

  /** Halves a failing batch, down to single items, so that only the failing item fails. Returns the function that settles it. */
  async #runTogether(tickets: readonly Ticket<Item, Result>[], lane: number): Promise<() => void> {
    const { clock, observe, run, isMemoryFailure } = this.#options;
    const startedAt = clock();
    try {
      const results = await run(
        tickets.map(({ item }) => item),
        lane,
      );
      const ms = clock() - startedAt;
      this.#queue.ran(tickets.length, ms);
      observe({ kind: "ran", items: tickets.length, ms });
      return () => {
        for (const [index, { settle }] of tickets.entries()) settle({ ok: true, result: results[index] as Result });
      };
    } catch (error) {
      if (tickets.length === 1) return () => tickets[0]?.settle({ ok: false, error });
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
