// The sequences of all contexts, a group per adapter and one for the bare model. A request takes all it needs of its group
// at once or waits, in turns by tenant; no more than `max` run at a time over all groups. A waiter whose client disconnected
// leaves the queue.
import { FairLines } from "../batch/fair-lines.ts";
import { EngineRefusal } from "../server/text-engine.ts";
import { chooseSequence, type IdleSequence } from "./choose-sequence.ts";

export interface PoolSequence extends IdleSequence {
  lastUsed: number;
}

/** The model without an adapter. */
export const bareModel = "";

export interface Ask {
  readonly group: string;
  readonly prompt: readonly number[];
  readonly count: number;
  /** Sequences last used under the same key are preferred. */
  readonly cacheKey: string | undefined;
  /** Only caches of the same scope are reused. */
  readonly cacheScope: string;
  /** Tenant whose turn in the queue this request uses. */
  readonly tenant: string;
  /** Expected cost beside other requests, in tokens. */
  readonly weight: number;
}

interface Waiter<S> extends Ask {
  readonly request: object;
  readonly take: (sequences: readonly S[]) => void;
}

interface Group<S> {
  readonly all: readonly S[];
  readonly idle: Set<S>;
  /** Called once no request uses or awaits the group any more. */
  whenUnused: (() => void) | undefined;
}

/** The agent's gate keeps the queue empty; a bound for callers that have none. */
const maxWaiting = 1024;

export class SequencePool<S extends PoolSequence> {
  readonly #max: number;
  readonly #groups = new Map<string, Group<S>>();
  readonly #queue = new FairLines<Waiter<S>>();
  #running = 0;
  #uses = 0;

  constructor(sequences: readonly S[]) {
    this.#max = sequences.length;
    this.open(bareModel, sequences);
  }

  get running(): number {
    return this.#running;
  }

  get waiting(): number {
    let sum = 0;
    for (const { count } of this.#queue) sum += count;
    return sum;
  }

  open(group: string, sequences: readonly S[]): void {
    this.#groups.set(group, { all: sequences, idle: new Set(sequences), whenUnused: undefined });
  }

  /** Requests for the group are refused from now on; resolves when those accepted before are done. */
  close(name: string): Promise<void> {
    return new Promise((resolve) => {
      const group = this.#groups.get(name);
      if (!group) return resolve();
      group.whenUnused = resolve;
      this.#forget(name, group);
    });
  }

  /** Rejects with the signal's reason, or EngineRefusal when too many wait or more are requested than exist. */
  async acquire(ask: Ask, signal: AbortSignal): Promise<readonly S[]> {
    signal.throwIfAborted();
    const group = this.#groups.get(ask.group);
    if (!group || group.whenUnused) throw new EngineRefusal("adapter", `the adapter ${ask.group} is not loaded here`);
    if (ask.count > group.all.length)
      throw new EngineRefusal(
        "choices",
        `n is ${ask.count}, but this instance runs at most ${group.all.length} at once${ask.group === bareModel ? "" : " with this adapter"}`,
        { param: "n" },
      );
    if (this.#queue.size === 0 && this.#fits(ask, group)) return this.#take(ask, group);
    if (this.#queue.size >= maxWaiting) throw new EngineRefusal("busy", "too many requests wait for this instance");
    return new Promise((resolve, reject) => {
      const waiter: Waiter<S> = {
        ...ask,
        request: signal,
        take: (sequences) => {
          signal.removeEventListener("abort", leave);
          resolve(sequences);
        },
      };
      const leave = () => {
        this.#queue.remove(waiter);
        reject(signal.reason);
        this.#forget(ask.group, group);
        this.#serve();
      };
      signal.addEventListener("abort", leave, { once: true });
      this.#queue.add(waiter);
      // Those before it may wait for another group.
      this.#serve();
    });
  }

  release(sequence: S): void {
    sequence.lastUsed = ++this.#uses;
    this.#running -= 1;
    for (const [name, group] of this.#groups)
      if (group.all.includes(sequence)) {
        group.idle.add(sequence);
        this.#forget(name, group);
      }
    this.#serve();
  }

  #serve(): void {
    for (;;) {
      const next = this.#next();
      if (!next) return;
      this.#queue.take(next.waiter);
      next.waiter.take(this.#take(next.waiter, next.group));
    }
  }

  /** A waiter for a busy adapter does not hold up the others; a full instance does. */
  #next(): { readonly waiter: Waiter<S>; readonly group: Group<S> } | undefined {
    for (const waiter of this.#queue.inTurn()) {
      if (this.#running + waiter.count > this.#max) return undefined;
      const group = this.#groups.get(waiter.group);
      if (group && this.#fits(waiter, group)) return { waiter, group };
    }
    return undefined;
  }

  #fits({ count }: Ask, group: Group<S>): boolean {
    return this.#running + count <= this.#max && count <= group.idle.size;
  }

  #take({ prompt, count, cacheKey, cacheScope }: Ask, group: Group<S>): readonly S[] {
    return Array.from({ length: count }, () => {
      const running = group.all.filter((sequence) => !group.idle.has(sequence)).map(({ place }) => place);
      const chosen = chooseSequence([...group.idle], new Set(running), prompt, cacheKey, cacheScope) as S;
      group.idle.delete(chosen);
      this.#running += 1;
      return chosen;
    });
  }

  #forget(name: string, group: Group<S>): void {
    const isUsed = group.idle.size < group.all.length || [...this.#queue].some((waiter) => waiter.group === name);
    if (!group.whenUnused || isUsed) return;
    this.#groups.delete(name);
    group.whenUnused();
  }
}
