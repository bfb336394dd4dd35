// Items of many requests, run together. A failing item fails alone; one that is cancelled before it runs never runs.
import { BatchQueue, type Waiting } from "./batch-queue.ts";
import { planRuns, type RunCosts } from "./plan-runs.ts";

export interface BatcherOptions<Item, Result> {
  readonly maxBatchSize: number;
  readonly latencyBudgetMs: number;
  readonly costs: RunCosts;
  readonly lengthOf: (item: Item) => number;
  /** One result per item, in order; throws when the run as a whole failed. */
  readonly run: (items: readonly Item[]) => Promise<readonly Result[]>;
  readonly isMemoryFailure: (error: unknown) => boolean;
  readonly observe: (event: BatchEvent) => void;
  readonly clock: () => number;
  /** Calls back once after so long, and returns what takes that back. */
  readonly timer: (callback: () => void, ms: number) => () => void;
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
  #running = 0;
  #isBusy = false;
  #isWoken = false;
  #cancelTimer: (() => void) | undefined;

  constructor(options: BatcherOptions<Item, Result>) {
    this.#options = options;
    this.#queue = new BatchQueue(options);
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
    const owner = {};
    const sinceMs = this.#options.clock();
    const added: Waiting<Ticket<Item, Result>>[] = [];
    const outcomes = items.map((item) => {
      const { promise, resolve } = Promise.withResolvers<Outcome<Result>>();
      const waiting = { item: { item, settle: resolve }, owner, weight: this.#options.lengthOf(item), sinceMs };
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

  /** After this turn of the event loop: what arrives together is looked at together. */
  #wake(): void {
    if (this.#isWoken || this.#isBusy) return;
    this.#isWoken = true;
    setImmediate(() => {
      this.#isWoken = false;
      this.#look();
    });
  }

  #look(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    if (this.#isBusy) return;
    const { clock, timer } = this.#options;
    const now = clock();
    const next = this.#queue.next(now);
    if (next.kind === "wait") this.#cancelTimer = timer(() => this.#look(), next.untilMs - now);
    if (next.kind === "run") void this.#run(next.batch);
  }

  async #run(batch: readonly Waiting<Ticket<Item, Result>>[]): Promise<void> {
    const { clock, observe, lengthOf, costs } = this.#options;
    this.#isBusy = true;
    this.#running = batch.length;
    const startedAt = clock();
    for (const { sinceMs } of batch) observe({ kind: "started", queuedMs: startedAt - sinceMs });
    const tickets = batch.map(({ item }) => item);
    for (const run of planRuns(
      tickets.map(({ item }) => lengthOf(item)),
      costs,
    )) {
      await this.#runTogether(run.map((index) => tickets[index] as Ticket<Item, Result>));
      this.#running -= run.length;
    }
    this.#isBusy = false;
    this.#look();
  }

  /** Halves what fails together, down to single items: a failure is only theirs who have it alone. */
  async #runTogether(tickets: readonly Ticket<Item, Result>[]): Promise<void> {
    const { clock, observe, run, isMemoryFailure } = this.#options;
    const startedAt = clock();
    try {
      const results = await run(tickets.map(({ item }) => item));
      const ms = clock() - startedAt;
      this.#queue.ran(tickets.length, ms);
      observe({ kind: "ran", items: tickets.length, ms });
      for (const [index, { settle }] of tickets.entries()) settle({ ok: true, result: results[index] as Result });
    } catch (error) {
      if (tickets.length === 1) return tickets[0]?.settle({ ok: false, error });
      const isMemory = isMemoryFailure(error);
      if (isMemory) this.#queue.ranOutOfMemory(tickets.length);
      observe({ kind: "split", items: tickets.length, isMemory });
      const half = Math.ceil(tickets.length / 2);
      await this.#runTogether(tickets.slice(0, half));
      await this.#runTogether(tickets.slice(half));
    }
  }
}
