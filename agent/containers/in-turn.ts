// One piece of work at a time per key, in the order in which it was asked for.

export function createInTurn() {
  const last = new Map<string, Promise<unknown>>();
  return {
    /** Waits for earlier work of the key. Does not start if the signal aborts while waiting. */
    async run<T>(key: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
      const before = last.get(key) ?? Promise.resolve();
      const own = before.then(() => {
        signal.throwIfAborted();
        return work();
      });
      const settled = own.catch(() => {});
      last.set(key, settled);
      try {
        return await own;
      } finally {
        if (last.get(key) === settled) last.delete(key);
      }
    },
  };
}
