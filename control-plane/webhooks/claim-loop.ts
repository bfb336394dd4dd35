// Rows of a table as a queue: claims due rows within the limits, works on them concurrently, and polls again when an item
// ends, when work was added, or after a second. The table is the queue: nothing is lost with this process.
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";

export function createClaimLoop<Item>(deps: {
  readonly what: string;
  readonly maxConcurrent: number;
  claim(limit: number): Promise<readonly Item[]>;
  /** Must not reject because of the item itself. */
  work(item: Item): Promise<void>;
  readonly idleMs: number;
  readonly log: Logger;
}) {
  const running = new Set<Promise<void>>();
  let woken = Promise.withResolvers<void>();
  let isUnavailable = false;

  const wake = () => woken.resolve();

  /** Returns true when there may be more. */
  async function claimOnce(): Promise<boolean> {
    const limit = deps.maxConcurrent - running.size;
    if (limit <= 0) return false;
    const items = await deps.claim(limit);
    for (const item of items) {
      const work = deps
        .work(item)
        .catch((error) => deps.log.warn({ err: error }, `${deps.what}: failed; will retry`))
        .finally(() => {
          running.delete(work);
          wake();
        });
      running.add(work);
    }
    return items.length > 0;
  }

  async function claimAll(signal: AbortSignal): Promise<void> {
    try {
      while (!signal.aborted && (await claimOnce()));
      if (isUnavailable) deps.log.info(`${deps.what}: database reachable again`);
      isUnavailable = false;
    } catch (error) {
      if (!isUnavailable) deps.log.warn({ err: error }, `${deps.what}: database unavailable; retrying every second`);
      isUnavailable = true;
    }
  }

  return {
    /** Polls now: there may be work. */
    wake,
    /** Runs until the signal aborts, then claims nothing more and returns when all running work has ended. */
    async run(signal: AbortSignal): Promise<void> {
      signal.addEventListener("abort", wake, { once: true });
      while (!signal.aborted) {
        // Created before polling, so that a wake during the poll is not missed.
        woken = Promise.withResolvers<void>();
        await claimAll(signal);
        if (signal.aborted) break;
        const timer = new AbortController();
        const idle = wait(deps.idleMs, undefined, { signal: timer.signal }).catch(() => {});
        await Promise.race(isUnavailable ? [idle] : [woken.promise, idle]);
        timer.abort();
      }
      await Promise.all(running);
    },
  };
}

export type ClaimLoop = ReturnType<typeof createClaimLoop>;
