// Keeps data in memory current: reads it again after a pushed change and periodically, one read at a time.
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { ChangeFeed } from "../store/core/change-feed.ts";

export interface RefreshLoop {
  run(signal: AbortSignal): Promise<void>;
}

export function refreshOn(
  feed: Pick<ChangeFeed, "on">,
  topics: readonly string[],
  target: {
    readonly what: string;
    readonly refresh: () => Promise<void>;
    readonly everyMs: number;
    /** Time after a read until the data expires by itself; undefined: it does not. */
    readonly untilStaleMs?: () => number | undefined;
    readonly log: Logger;
  },
): RefreshLoop {
  let isStale = false;
  let wake = () => {};
  for (const topic of topics) {
    feed.on(topic, () => {
      isStale = true;
      wake();
    });
  }
  const pauseMs = () => Math.min(target.everyMs, Math.ceil(target.untilStaleMs?.() ?? target.everyMs) + 1);
  return {
    async run(signal) {
      let isUnavailable = false;
      while (!signal.aborted) {
        const timer = new AbortController();
        const woken = new Promise<void>((resolve) => {
          wake = resolve;
        });
        if (!isStale) {
          const end = AbortSignal.any([signal, timer.signal]);
          await Promise.race([woken, wait(pauseMs(), undefined, { signal: end }).catch(() => {})]);
          timer.abort();
        }
        if (signal.aborted) return;
        isStale = false;
        try {
          await target.refresh();
          if (isUnavailable) target.log.info({ what: target.what }, "refresh succeeds again");
          isUnavailable = false;
        } catch (error) {
          if (!isUnavailable)
            target.log.warn({ err: error, what: target.what }, "could not refresh; keeping the known data");
          isUnavailable = true;
          isStale = true;
          await wait(500, undefined, { signal }).catch(() => {});
        }
      }
    },
  };
}
