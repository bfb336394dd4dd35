// Keeps something in memory fresh: read anew when a pushed change says so, one reading at a time, and now and then anyway.
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
    /** When what was read goes out of date by itself, in ms after the reading; undefined: not by itself. */
    readonly untilStaleMs?: () => number | undefined;
    readonly log: Logger;
  },
): RefreshLoop {
  let isWanted = false;
  let wake = () => {};
  for (const topic of topics) {
    feed.on(topic, () => {
      isWanted = true;
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
        if (!isWanted) {
          const end = AbortSignal.any([signal, timer.signal]);
          await Promise.race([woken, wait(pauseMs(), undefined, { signal: end }).catch(() => {})]);
          timer.abort();
        }
        if (signal.aborted) return;
        isWanted = false;
        try {
          await target.refresh();
          if (isUnavailable) target.log.info({ what: target.what }, "reads again");
          isUnavailable = false;
        } catch (error) {
          if (!isUnavailable)
            target.log.warn({ err: error, what: target.what }, "cannot be read anew; what is known stays");
          isUnavailable = true;
          isWanted = true;
          await wait(500, undefined, { signal }).catch(() => {});
        }
      }
    },
  };
}
