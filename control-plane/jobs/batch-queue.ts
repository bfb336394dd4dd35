// Jobs of batches: one per batch and run, by id alone, and one more when its rank changed. A run may last for a day; its job is
// kept by BullMQ's renewed lock, and given to another worker where this one died. That one finds the batch's row held or not,
// which decides.
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import type { BatchQueue, DueBatch } from "../batches/queue.ts";
import type { JobsAddress } from "./backend.ts";
import { createStandingQueue, type StandingQueue, within } from "./standing-queue.ts";

const name = "stoker-batches";
const addLimitMs = 5_000;
/** Renewed at the half of it. */
const lockMs = 30_000;
const stalledEveryMs = 15_000;
/** Until a store that refused the connection is asked for jobs again. */
const retryMs = 2_000;
/** A job that broke down with its worker is never given up: its batch's row counts how often that was. */
const mostStalled = 1_000_000;

export function createBatchQueue(deps: {
  readonly address: JobsAddress;
  /** At a time, by this control plane. */
  readonly mostBatches: number;
  readonly lookEveryMs?: number;
  /** A store that has not answered by then is away. */
  readonly answerMs?: number;
  readonly log: Logger;
  readonly registry: Registry;
}): BatchQueue {
  let standing: StandingQueue | undefined;
  let adding: Promise<unknown> | undefined;

  return {
    start(work, reached) {
      standing ??= createStandingQueue({
        ...deps,
        name,
        work: ({ data }) => work((data as Pick<DueBatch, "id">).id),
        wishes: {
          concurrency: deps.mostBatches,
          lockDuration: lockMs,
          stalledInterval: stalledEveryMs,
          maxStalledCount: mostStalled,
          runRetryDelay: retryMs,
        },
        look: async () => reached(),
        lookEveryMs: deps.lookEveryMs ?? 15_000,
      });
      standing.start();
    },

    async add(due) {
      const queue = standing?.queue();
      if (!queue) return;
      const jobs = due.map(({ id, run, rank }) => ({
        name: "run",
        data: { id },
        // Finished jobs go at once: what became of a batch stands in its row, and the id must be free again. A job keeps the
        // priority it was added with: another rank is another job, and of a run's jobs the first finds the row.
        opts: { jobId: `${id}-${run}-${rank}`, priority: rank, removeOnComplete: true, removeOnFail: true },
      }));
      // Commands to a store that is away wait in the client: never more than once.
      adding ??= queue.addBulk(jobs).finally(() => {
        adding = undefined;
      });
      if (!(await within(addLimitMs, adding))) throw new Error("the job queue does not answer");
    },

    stop: async () => standing?.stop(),
  };
}
