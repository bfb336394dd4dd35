// What batches need of a job queue. Implemented by jobs/batch-queue.ts. A job says who takes a batch up, and when; what is to be
// done stands in the batch's row, and whoever holds that row does it. INVARIANT: a job that is lost, late or there twice costs
// time at most.
import type { BatchId } from "./batch.ts";

/** A batch that nobody holds and that may be taken up. */
export interface DueBatch {
  readonly id: BatchId;
  /** How often it was taken up before: each run has a job of its own, or the job of one that died would be in the next one's way. */
  readonly run: number;
  /** Those of its account that come before it and those that are held, plus one: lower goes first. */
  readonly rank: number;
}

export interface BatchQueue {
  /**
   * In the background, as long as it takes. `work` is called for one job each, so many at a time as its maker said; `reached`
   * when jobs may be missing: the queue has just been opened, or its store was away.
   */
  start(work: (id: BatchId) => Promise<void>, reached: () => void): void;
  /** One that is there already stays as it is, and one of another rank comes beside it; nothing is added before the queue was reached. Throws while it is away. */
  add(due: readonly DueBatch[]): Promise<void>;
  /** Bounded. What runs is waited for. */
  stop(): Promise<void>;
}
