// Takes up batches that nobody runs: those that are new, and those whose control plane died. The table says what there is to
// do; being woken only saves the wait until the next look.
import { setTimeout as wait } from "node:timers/promises";
import { type RunDeps, runBatch } from "./run-batch.ts";

export interface BatchRunner {
  start(): void;
  /** There may be something to do. */
  wake(): void;
  /** Bounded: what has not ended by then goes on elsewhere. */
  stop(): Promise<void>;
}

const stopLimitMs = 6_000;

export function createBatchRunner(
  deps: Omit<RunDeps, "runLine"> & {
    /** Undefined before the edge is there. */
    readonly runLine: () => RunDeps["runLine"] | undefined;
    /** Batches at a time. */
    readonly mostBatches: number;
    readonly lookEveryMs: number;
  },
): BatchRunner {
  const stopping = new AbortController();
  const running = new Set<Promise<void>>();
  let looked = new AbortController();
  let loop: Promise<void> | undefined;
  let isAway = false;

  /** False: there was none. */
  async function takeUp(): Promise<boolean> {
    const runLine = deps.runLine();
    const run = runLine && (await deps.store.claim(deps.lockMs));
    if (!run) return false;
    const task: Promise<void> = runBatch({ ...deps, runLine }, run, stopping.signal)
      .catch((error) => deps.log.warn({ err: error, batch: run.batch.id }, "a batch broke off; it is taken up again"))
      .finally(() => {
        running.delete(task);
        looked.abort();
      });
    running.add(task);
    return true;
  }

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      looked = new AbortController();
      try {
        while (running.size < deps.mostBatches && !stopping.signal.aborted && (await takeUp()));
        isAway = false;
      } catch (error) {
        if (!isAway) deps.log.warn({ err: error }, "batches cannot be looked for; it is tried again");
        isAway = true;
      }
      await wait(deps.lookEveryMs, undefined, { signal: AbortSignal.any([looked.signal, stopping.signal]) }).catch(
        () => {},
      );
    }
  }

  return {
    start() {
      loop ??= run();
    },
    wake: () => looked.abort(),
    async stop() {
      stopping.abort();
      const all = Promise.allSettled([loop, ...running]);
      const limit = new AbortController();
      await Promise.race([all, wait(stopLimitMs, undefined, { signal: limit.signal }).catch(() => {})]);
      limit.abort();
    },
  };
}
