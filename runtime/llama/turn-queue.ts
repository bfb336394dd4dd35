// One piece of work at a time, in the order of their coming; who went away before their turn is passed over.
export class TurnQueue {
  #last: Promise<unknown> = Promise.resolve();
  #running = 0;
  #waiting = 0;

  get running(): number {
    return this.#running;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Rejects with the signal's reason. */
  run<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    this.#waiting += 1;
    const turn = this.#last.then(async () => {
      this.#waiting -= 1;
      signal.throwIfAborted();
      this.#running += 1;
      try {
        return await work();
      } finally {
        this.#running -= 1;
      }
    });
    this.#last = turn.catch(() => {});
    return turn;
  }
}
