// Rows of a table as a queue: claims what is due as far as there is room, works on it side by side, looks again when
// something ended, was added, or a second has passed. The table is the queue: nothing is lost with this process.
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";

export interface ClaimLoop {
  /** Until the signal; then nothing is claimed any more, and it returns when all that runs has ended. */
  run(signal: AbortSignal): Promise<void>;
  /** There may be work. */
  wake(): void;
}

export function createClaimLoop<Item>(deps: {
  readonly what: string;
  readonly mostAtOnce: number;
  claim(limit: number): Promise<readonly Item[]>;
  /** Must not reject for what the item is about. */
  work(item: Item): Promise<void>;
  readonly idleMs: number;
  readonly log: Logger;
}): ClaimLoop {
  const running = new Set<Promise<void>>();
  let woken = Promise.withResolvers<void>();
  let isAway = false;

  const wake = () => woken.resolve();

  /** Whether there may be more. */
  async function claimOnce(): Promise<boolean> {
    const limit = deps.mostAtOnce - running.size;
    if (limit <= 0) return false;
    const items = await deps.claim(limit);
    for (const item of items) {
      const work = deps
        .work(item)
        .catch((error) => deps.log.warn({ err: error }, `${deps.what}: left to the next look`))
        .finally(() => {
          running.delete(work);
          wake();
        });
      running.add(work);
    }
    return items.length > 0;
  }

  async function look(signal: AbortSignal): Promise<void> {
    try {
      while (!signal.aborted && (await claimOnce()));
      if (isAway) deps.log.info(`${deps.what}: the database is reached again`);
      isAway = false;
    } catch (error) {
      if (!isAway)
        deps.log.warn({ err: error }, `${deps.what}: the database cannot be asked; tried again every second`);
      isAway = true;
    }
  }

  return {
    wake,
    async run(signal) {
      signal.addEventListener("abort", wake, { once: true });
      while (!signal.aborted) {
        // Made before looking: what comes meanwhile must not be slept over.
        woken = Promise.withResolvers<void>();
        await look(signal);
        if (signal.aborted) break;
        const timer = new AbortController();
        const idle = wait(deps.idleMs, undefined, { signal: timer.signal }).catch(() => {});
        await Promise.race(isAway ? [idle] : [woken.promise, idle]);
        timer.abort();
      }
      await Promise.all(running);
    },
  };
}
