// The sequences of one context. A request takes all it needs at once or waits its turn, first come first served; a
// waiter whose client went away leaves the queue.
import { EngineRefusal } from "../server/text-engine.ts";
import { chooseSequence, type IdleSequence } from "./choose-sequence.ts";

export interface PoolSequence extends IdleSequence {
  lastUsed: number;
}

interface Waiter<S> {
  readonly prompt: readonly number[];
  readonly count: number;
  readonly take: (sequences: readonly S[]) => void;
}

/** The agent's gate keeps the queue empty; a bound for callers that have none. */
const maxWaiting = 1024;

export class SequencePool<S extends PoolSequence> {
  readonly #all: readonly S[];
  readonly #idle: Set<S>;
  readonly #queue: Waiter<S>[] = [];
  #uses = 0;

  constructor(sequences: readonly S[]) {
    this.#all = sequences;
    this.#idle = new Set(sequences);
  }

  get running(): number {
    return this.#all.length - this.#idle.size;
  }

  get waiting(): number {
    return this.#queue.reduce((sum, waiter) => sum + waiter.count, 0);
  }

  /** Rejects with the signal's reason, or EngineRefusal when too many wait or more are asked for than there are. */
  async acquire(prompt: readonly number[], count: number, signal: AbortSignal): Promise<readonly S[]> {
    signal.throwIfAborted();
    if (count > this.#all.length)
      throw new EngineRefusal("choices", `n is ${count}, but this instance runs at most ${this.#all.length} at once`, {
        param: "n",
      });
    if (this.#queue.length === 0 && this.#idle.size >= count) return this.#take(prompt, count);
    if (this.#queue.length >= maxWaiting) throw new EngineRefusal("busy", "too many requests wait for this instance");
    return new Promise((resolve, reject) => {
      const waiter: Waiter<S> = {
        prompt,
        count,
        take: (sequences) => {
          signal.removeEventListener("abort", leave);
          resolve(sequences);
        },
      };
      const leave = () => {
        this.#queue.splice(this.#queue.indexOf(waiter), 1);
        reject(signal.reason);
        this.#serve();
      };
      signal.addEventListener("abort", leave, { once: true });
      this.#queue.push(waiter);
    });
  }

  release(sequence: S): void {
    sequence.lastUsed = ++this.#uses;
    this.#idle.add(sequence);
    this.#serve();
  }

  #serve(): void {
    for (let next = this.#queue[0]; next && next.count <= this.#idle.size; next = this.#queue[0]) {
      this.#queue.shift();
      next.take(this.#take(next.prompt, next.count));
    }
  }

  #take(prompt: readonly number[], count: number): readonly S[] {
    return Array.from({ length: count }, () => {
      const chosen = chooseSequence([...this.#idle], prompt) as S;
      this.#idle.delete(chosen);
      return chosen;
    });
  }
}
