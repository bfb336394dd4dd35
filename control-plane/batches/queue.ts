// Port of the job queue for batches. Implemented by jobs/batch-queue.ts. A job determines who runs a batch, and when; the
// batch's row holds the work, and only the holder of that row does it. INVARIANT: a lost, late or duplicate job costs only
// time.
import type { BatchId } from "./batch.ts";

/** A batch without a holder that may be run. */
export interface DueBatch {
  readonly id: BatchId;
  /** Number of earlier runs: each run has its own job, so that the job of a dead run does not block the next. */
  readonly run: number;
  /** One plus the account's earlier and running batches: lower goes first. */
  readonly rank: number;
}

export interface BatchQueue {
  /**
   * Runs in the background. `work` is called for one job each, up to the configured concurrency; `reached` when jobs may be
   * missing: after opening, or after the store was unavailable.
   */
  start(work: (id: BatchId) => Promise<void>, reached: () => void): void;
  /**
   * An existing job is unchanged, and one of another rank is added beside it; adds nothing before the queue was first
   * reached. Throws while it is unavailable.
   */
  add(due: readonly DueBatch[]): Promise<void>;
  /** Bounded. Waits for running jobs. */
  stop(): Promise<void>;
}
