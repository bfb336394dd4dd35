// Rows of a table as a queue: claims due rows within the limits, works on them concurrently, and polls again when an item
// ends, when work was added, or after a second. The table is the queue: nothing is lost with this process.
import type { Logger } from "pino";
import { pause } from "../../proto/pause.ts";
import { WakeablePause } from "../../proto/repeat.ts";

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
  const idle = new WakeablePause();
  const { wake } = idle;
  let isUnavailable = false;

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
      while (!signal.aborted) {
        await claimAll(signal);
        await (isUnavailable ? pause(deps.idleMs, signal) : idle.wait(deps.idleMs, signal));
      }
      await Promise.all(running);
    },
  };
}

export type ClaimLoop = ReturnType<typeof createClaimLoop>;
