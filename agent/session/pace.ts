// Runs work at a minimum rate, and soon after each request for it; never concurrently.
import type { Logger } from "pino";
import { pause } from "../../proto/pause.ts";

/** Runs until aborted; a failure is logged and retried with the next run. `gatherMs`: time for which requests are collected. */
export function every(periodMs: number, gatherMs: number, work: () => Promise<void>, log: Logger, signal: AbortSignal) {
  let isWanted = false;
  let wake = () => {};
  const run = async () => {
    while (!signal.aborted) {
      if (!isWanted) await pause(periodMs, signal, (end) => (wake = end));
      if (isWanted && gatherMs > 0) await pause(gatherMs, signal);
      if (signal.aborted) return;
      isWanted = false;
      try {
        await work();
      } catch (error) {
        log.warn({ err: error }, "could not create a message for the control plane; will retry");
        await pause(Math.min(1_000, periodMs), signal);
      }
    }
  };
  return {
    now: () => {
      isWanted = true;
      wake();
    },
    done: run(),
  };
}
