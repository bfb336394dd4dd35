// Jobs of batches: one per batch and run, by id alone, and one more when its rank changed. A run may last a day; BullMQ's
// renewed lock holds its job, and another worker gets the job when this one dies. Whether the batch's row is held decides
// what that worker does.
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import type { BatchQueue, DueBatch } from "../batches/queue.ts";
import type { JobsAddress } from "./backend.ts";
import { type BackgroundQueue, createBackgroundQueue, within } from "./background-queue.ts";

const name = "stoker-batches";
const addLimitMs = 5_000;
/** Renewed at half of this. */
const lockMs = 30_000;
const stalledEveryMs = 15_000;
/** Pause before jobs are requested again from a store that refused the connection. */
const retryMs = 2_000;
/** A job whose worker died is never given up: its batch's row counts how often that happened. */
const maxStalled = 1_000_000;

export function createBatchQueue(deps: {
  readonly address: JobsAddress;
  /** Maximum concurrent batches of this control plane. */
  readonly maxBatches: number;
  readonly pollEveryMs?: number;
  /** A store that does not respond within this time is unavailable. */
  readonly answerMs?: number;
  readonly log: Logger;
  readonly registry: Registry;
}): BatchQueue {
  let background: BackgroundQueue | undefined;
  let adding: Promise<unknown> | undefined;

  return {
    start(work, reached) {
      background ??= createBackgroundQueue({
        ...deps,
        name,
        work: ({ data }) => work((data as Pick<DueBatch, "id">).id),
        options: {
          concurrency: deps.maxBatches,
          lockDuration: lockMs,
          stalledInterval: stalledEveryMs,
          maxStalledCount: maxStalled,
          runRetryDelay: retryMs,
        },
        onPoll: async () => reached(),
        pollEveryMs: deps.pollEveryMs ?? 15_000,
      });
      background.start();
    },

    async add(due) {
      const queue = background?.queue();
      if (!queue) return;
      const jobs = due.map(({ id, run, rank }) => ({
        name: "run",
        data: { id },
        // Finished jobs are removed at once: the batch's row holds the result, and the id must be free again. A job keeps
        // the priority it was added with, so another rank is another job; of a run's jobs the first claims the row.
        opts: { jobId: `${id}-${run}-${rank}`, priority: rank, removeOnComplete: true, removeOnFail: true },
      }));
      // Commands wait in the client while the store is unavailable: at most one at a time.
      adding ??= queue.addBulk(jobs).finally(() => {
        adding = undefined;
      });
      if (!(await within(addLimitMs, adding))) throw new Error("job queue does not respond");
    },

    stop: async () => background?.stop(),
  };
}
