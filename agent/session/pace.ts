// Something done at least every so often, and soon after it was asked for; never twice at once.
import type { Logger } from "pino";

export interface Pace {
  readonly now: () => void;
  readonly done: Promise<void>;
}

/** Runs until aborted; a failure is logged and the next turn tries again. `gatherMs`: what was asked for waits so long for company. */
export function every(
  periodMs: number,
  gatherMs: number,
  work: () => Promise<void>,
  log: Logger,
  signal: AbortSignal,
): Pace {
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
        log.warn({ err: error }, "a message to the control plane could not be made; the next turn tries again");
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
