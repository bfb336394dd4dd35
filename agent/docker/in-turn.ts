// Calls about one instance one after another: the engine takes two creates of one name for a conflict, not for a repetition.
export interface InTurn {
  /** Waits for its turn; a caller that gives up while waiting never begins. */
  run<T>(key: string, signal: AbortSignal, work: () => Promise<T>): Promise<T>;
}

export function createInTurn(): InTurn {
  const last = new Map<string, Promise<unknown>>();
  return {
    async run(key, signal, work) {
      const before = last.get(key) ?? Promise.resolve();
      const mine = before.then(() => {
        signal.throwIfAborted();
        return work();
      });
      const settled = mine.catch(() => {});
      last.set(key, settled);
      try {
        return await mine;
      } finally {
        if (last.get(key) === settled) last.delete(key);
      }
    },
  };
}
