// The sequences of all contexts, a group per adapter and one for the bare model. A request takes all it needs of its group
// at once or waits its turn, first come first served; no more than `max` run at a time over all groups. A waiter whose
// client went away leaves the queue.
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
}

interface Waiter<S> extends Ask {
  readonly take: (sequences: readonly S[]) => void;
}

interface Group<S> {
  readonly all: readonly S[];
  readonly idle: Set<S>;
  /** Called once nobody uses or awaits the group any more. */
  whenUnused: (() => void) | undefined;
}

/** The agent's gate keeps the queue empty; a bound for callers that have none. */
const maxWaiting = 1024;

export class SequencePool<S extends PoolSequence> {
  readonly #max: number;
  readonly #groups = new Map<string, Group<S>>();
  readonly #queue: Waiter<S>[] = [];
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
    return this.#queue.reduce((sum, waiter) => sum + waiter.count, 0);
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

  /** Rejects with the signal's reason, or EngineRefusal when too many wait or more are asked for than there are. */
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
    if (this.#queue.length === 0 && this.#fits(ask, group)) return this.#take(ask, group);
    if (this.#queue.length >= maxWaiting) throw new EngineRefusal("busy", "too many requests wait for this instance");
    return new Promise((resolve, reject) => {
      const waiter: Waiter<S> = {
        ...ask,
        take: (sequences) => {
          signal.removeEventListener("abort", leave);
          resolve(sequences);
        },
      };
      const leave = () => {
        this.#queue.splice(this.#queue.indexOf(waiter), 1);
        reject(signal.reason);
        this.#forget(ask.group, group);
        this.#serve();
      };
      signal.addEventListener("abort", leave, { once: true });
      this.#queue.push(waiter);
      // Those before it may wait for another group than this one.
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

  /** Whoever waits for a busy adapter alone does not hold up the others; a full instance does. */
  #serve(): void {
    for (const waiter of [...this.#queue]) {
      if (this.#running + waiter.count > this.#max) return;
      const group = this.#groups.get(waiter.group);
      if (!group || !this.#fits(waiter, group)) continue;
      this.#queue.splice(this.#queue.indexOf(waiter), 1);
      waiter.take(this.#take(waiter, group));
    }
  }

  #fits({ count }: Ask, group: Group<S>): boolean {
    return this.#running + count <= this.#max && count <= group.idle.size;
  }

  #take({ prompt, count, cacheKey }: Ask, group: Group<S>): readonly S[] {
    return Array.from({ length: count }, () => {
      const running = group.all.filter((sequence) => !group.idle.has(sequence)).map(({ place }) => place);
      const chosen = chooseSequence([...group.idle], new Set(running), prompt, cacheKey) as S;
      group.idle.delete(chosen);
      this.#running += 1;
      return chosen;
    });
  }

  #forget(name: string, group: Group<S>): void {
    const isUsed = group.idle.size < group.all.length || this.#queue.some((waiter) => waiter.group === name);
    if (!group.whenUnused || isUsed) return;
    this.#groups.delete(name);
    group.whenUnused();
  }
}
