// Runs batches from the queue, and queues those without a holder: new ones, those whose control plane died, and those with
// lost jobs. The table is authoritative; waking only saves the wait until the next poll.

import { pause } from "../../proto/pause.ts";
import { WakeablePause } from "../../proto/repeat.ts";
import type { BatchId } from "./batch.ts";
import type { BatchQueue } from "./queue.ts";
import { type RunDeps, runBatch } from "./run-batch.ts";

const stopLimitMs = 6_000;
/** Maximum batches queued per poll, enough to keep all workers busy. */
const maxDue = 32;

export function createBatchRunner(
  deps: Omit<RunDeps, "runLine"> & {
    readonly queue: BatchQueue;
    /** Undefined before the edge is ready. */
    readonly runLine: () => RunDeps["runLine"] | undefined;
    readonly pollEveryMs: number;
  },
) {
  const { queue, store, log } = deps;
  const stopping = new AbortController();
  const untilDue = new WakeablePause();
  let loop: Promise<void> | undefined;
  let isUnavailable = false;

  async function work(id: BatchId): Promise<void> {
    const runLine = deps.runLine();
    if (!runLine || stopping.signal.aborted) return;
    const run = await store.claim(id, deps.lockMs);
    if (!run) return;
    try {
      await runBatch({ ...deps, runLine }, run, stopping.signal);
    } catch (error) {
      log.warn({ err: error, batch: id }, "batch run failed; it will be run again");
    }
    untilDue.wake();
  }

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        const due = await store.due(maxDue);
        if (due.length > 0) await queue.add(due);
        isUnavailable = false;
      } catch (error) {
        if (!isUnavailable) log.warn({ err: error }, "could not queue batches; will retry");
        isUnavailable = true;
      }
      await untilDue.wait(deps.pollEveryMs, stopping.signal);
    }
  }

  return {
    start(): void {
      queue.start(work, untilDue.wake);
      loop ??= run();
    },
    /** Polls now. */
    wake: untilDue.wake,
    /** Bounded: unfinished batches continue elsewhere. */
    async stop(): Promise<void> {
      stopping.abort();
      const all = Promise.allSettled([loop, queue.stop()]);
      const limit = new AbortController();
      await Promise.race([all, pause(stopLimitMs, limit.signal)]);
      limit.abort();
    },
  };
}

export type BatchRunner = ReturnType<typeof createBatchRunner>;
