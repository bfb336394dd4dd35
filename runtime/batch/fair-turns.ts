// Runs pieces of work with limited concurrency, in turns by tenant. Work that is cancelled before its turn never runs.
import { type Entry, FairLines } from "./fair-lines.ts";
import { currentTenant } from "./tenant.ts";

interface Waiter extends Entry {
  readonly start: () => void;
}

export class FairTurns {
  readonly #maxRunning: number;
  readonly #lines = new FairLines<Waiter>();
  #running = 0;

  constructor(maxRunning = 1) {
    this.#maxRunning = maxRunning;
  }

  get running(): number {
    return this.#running;
  }

  get waiting(): number {
    return this.#lines.size;
  }

  /**
   * Runs the work for the current tenant when its turn comes. Rejects with the signal's reason when that aborts before.
   * The signal also identifies the request: pieces of one request share one line, and work without a signal is a request of its
   * own. `weight`: cost beside other pieces.
   */
  async run<T>(work: () => Promise<T>, signal?: AbortSignal, weight = 1): Promise<T> {
    signal?.throwIfAborted();
    if (this.#running >= this.#maxRunning || this.#lines.size > 0) await this.#turn(signal, weight);
    else this.#running += 1;
    try {
      return await work();
    } finally {
      this.#running -= 1;
      this.#serve();
    }
  }

  #turn(signal: AbortSignal | undefined, weight: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        tenant: currentTenant(),
        request: signal ?? {},
        weight,
        start: () => {
          signal?.removeEventListener("abort", leave);
          resolve();
        },
      };
      const leave = () => {
        this.#lines.remove(waiter);
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", leave, { once: true });
      this.#lines.add(waiter);
    });
  }

  #serve(): void {
    while (this.#running < this.#maxRunning) {
      const next = this.#lines.next();
      if (!next) return;
      this.#lines.take(next);
      this.#running += 1;
      next.start();
    }
  }
}
