// Keeps data in memory current: reads it again after a pushed change and periodically, one read at a time.
import type { Logger } from "pino";
import { pause } from "../../proto/pause.ts";
import { WakeablePause } from "../../proto/repeat.ts";
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
  const untilStale = new WakeablePause();
  for (const topic of topics) feed.on(topic, untilStale.wake);
  const pauseMs = () => Math.min(target.everyMs, Math.ceil(target.untilStaleMs?.() ?? target.everyMs) + 1);
  return {
    async run(signal) {
      let isUnavailable = false;
      while (!signal.aborted) {
        await untilStale.wait(pauseMs(), signal);
        if (signal.aborted) return;
        try {
          await target.refresh();
          if (isUnavailable) target.log.info({ what: target.what }, "refresh succeeds again");
          isUnavailable = false;
        } catch (error) {
          if (!isUnavailable)
            target.log.warn({ err: error, what: target.what }, "could not refresh; keeping the known data");
          isUnavailable = true;
          untilStale.wake();
          await pause(500, signal);
        }
      }
    },
  };
}
