// Runs the batches that the queue gives out, and puts into it those that nobody runs: new ones, those whose control plane died,
// and those whose jobs were lost. The table says what there is to do; being woken only saves the wait until the next look.
import { setTimeout as wait } from "node:timers/promises";
import type { BatchId } from "./batch.ts";
import type { BatchQueue } from "./queue.ts";
import { type RunDeps, runBatch } from "./run-batch.ts";

export interface BatchRunner {
  start(): void;
  /** There may be something to do. */
  wake(): void;
  /** Bounded: what has not ended by then goes on elsewhere. */
  stop(): Promise<void>;
}

const stopLimitMs = 6_000;
/** Queued at a look: enough that no worker waits for the next one. */
const mostDue = 32;

export function createBatchRunner(
  deps: Omit<RunDeps, "runLine"> & {
    readonly queue: BatchQueue;
    /** Undefined before the edge is there. */
    readonly runLine: () => RunDeps["runLine"] | undefined;
    readonly lookEveryMs: number;
  },
): BatchRunner {
  const { queue, store, log } = deps;
  const stopping = new AbortController();
  let looked = new AbortController();
  let loop: Promise<void> | undefined;
  let isAway = false;

  async function work(id: BatchId): Promise<void> {
    const runLine = deps.runLine();
    if (!runLine || stopping.signal.aborted) return;
    const run = await store.claim(id, deps.lockMs);
    if (!run) return;
    try {
      await runBatch({ ...deps, runLine }, run, stopping.signal);
    } catch (error) {
      log.warn({ err: error, batch: id }, "a batch broke off; it is taken up again");
    }
    looked.abort();
  }

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      looked = new AbortController();
      try {
        const due = await store.due(mostDue);
        if (due.length > 0) await queue.add(due);
        isAway = false;
      } catch (error) {
        if (!isAway) log.warn({ err: error }, "batches cannot be queued; it is tried again");
        isAway = true;
      }
      await wait(deps.lookEveryMs, undefined, { signal: AbortSignal.any([looked.signal, stopping.signal]) }).catch(
        () => {},
      );
    }
  }

  const wake = () => looked.abort();
  return {
    start() {
      queue.start(work, wake);
      loop ??= run();
    },
    wake,
    async stop() {
      stopping.abort();
      const all = Promise.allSettled([loop, queue.stop()]);
      const limit = new AbortController();
      await Promise.race([all, wait(stopLimitMs, undefined, { signal: limit.signal }).catch(() => {})]);
      limit.abort();
    },
  };
}
