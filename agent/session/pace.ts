// Runs work at a minimum rate, and soon after each request for it; never concurrently.
import type { Logger } from "pino";

/** Runs until aborted; a failure is logged and retried with the next run. `gatherMs`: time for which requests are collected. */
export function every(periodMs: number, gatherMs: number, work: () => Promise<void>, log: Logger, signal: AbortSignal) {
  let isWanted = false;
  let wake = () => {};
  const pause = (ms: number, isWakeable: boolean) =>
    new Promise<void>((resolve) => {
      const end = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", end);
        wake = () => {};
        resolve();
      };
      const timer = setTimeout(end, ms);
      signal.addEventListener("abort", end, { once: true });
      if (isWakeable) wake = end;
      if (signal.aborted) end();
    });
  const run = async () => {
    while (!signal.aborted) {
      if (!isWanted) await pause(periodMs, true);
      if (isWanted && gatherMs > 0) await pause(gatherMs, false);
      if (signal.aborted) return;
      isWanted = false;
      try {
        await work();
      } catch (error) {
        log.warn({ err: error }, "could not create a message for the control plane; will retry");
        await pause(Math.min(1_000, periodMs), false);
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
