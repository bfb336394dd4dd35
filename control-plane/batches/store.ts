// What batches need of the database. Implemented by store/batch-store.ts. INVARIANT: whatever a run writes is guarded by its
// number, so that one that was overtaken changes nothing.
import type { AccountId, KeyId } from "../../proto/ids.ts";
import type { Batch, BatchEndpoint, BatchError, BatchId, BatchStatus, BatchTokens } from "./batch.ts";
import type { DueBatch } from "./queue.ts";

export type { Batch, BatchError, BatchId, BatchTokens } from "./batch.ts";

export interface NewBatch {
  readonly id: BatchId;
  readonly account: AccountId;
  readonly key: KeyId;
  readonly endpoint: BatchEndpoint;
  readonly inputFile: string;
  readonly metadata: Readonly<Record<string, string>> | null;
  readonly outputExpiresAfterMs: number;
  readonly windowMs: number;
}

/** One taking up of a batch. */
export interface BatchRun {
  readonly batch: Batch;
  /** From 1. */
  readonly run: number;
  /** Runs up to this one, one after the other, that added no result and were not given back; from 1. */
  readonly barren: number;
}

export interface LineResult {
  readonly line: number;
  readonly isError: boolean;
  /** A line of the output file, as JSON without its newline. */
  readonly body: string;
  readonly tokens: BatchTokens | undefined;
}

export interface OutputFile {
  readonly id: string;
  readonly filename: string;
  readonly bytes: number;
}

export interface PageLimits {
  readonly lines: number;
  readonly bytes: number;
}

export interface BatchStore {
  /** Undefined: there is no such file of purpose `batch`. A number: so many are open, and that is the limit. */
  create(batch: NewBatch, mostOpen: number): Promise<Batch | "no_file" | "too_many">;
  find(account: AccountId, id: BatchId): Promise<Batch | undefined>;
  /** Newest first. Undefined: the cursor is unknown. */
  list(
    account: AccountId,
    after: BatchId | undefined,
    limit: number,
  ): Promise<{ readonly batches: readonly Batch[]; readonly hasMore: boolean } | undefined>;
  /** The batch as it is afterwards, also where it had ended; undefined: unknown. */
  cancel(account: AccountId, id: BatchId): Promise<Batch | undefined>;

  /** Those that nobody runs, lowest rank first. */
  due(limit: number): Promise<readonly DueBatch[]>;
  /** Takes it up. Undefined: somebody runs it, it waits for its next run, or it has ended. */
  claim(id: BatchId, lockMs: number): Promise<BatchRun | undefined>;
  /** Undefined: it is somebody else's now, or has ended. */
  renew(run: BatchRun, lockMs: number): Promise<BatchStatus | undefined>;
  /** Anybody may take it up at once, and this run does not count as barren. */
  release(run: BatchRun): Promise<void>;
  /** Nobody takes it up for so long. `problem` is shown in the batch until it ends; it takes the place of others of the output. */
  pause(run: BatchRun, ms: number, problem: BatchError | undefined): Promise<void>;
  /** All of these: false where the run was overtaken. */
  began(run: BatchRun, found: { readonly total: number; readonly model: string }): Promise<boolean>;
  failed(run: BatchRun, errors: readonly BatchError[]): Promise<boolean>;
  /** A line that stands there already stays as it is and is not counted again. */
  addResults(run: BatchRun, results: readonly LineResult[]): Promise<boolean>;
  /** Its window has ended before all of its lines began. */
  expired(run: BatchRun): Promise<boolean>;
  /** All lines have a result, or `problem` says why no others come. A cancelled batch stays `cancelling`. */
  finalizing(run: BatchRun, problem?: BatchError): Promise<boolean>;
  /** Makes what was written files of its account, and the batch completed, expired or cancelled, whichever it is. */
  end(
    run: BatchRun,
    files: { readonly output: OutputFile | undefined; readonly errors: OutputFile | undefined },
  ): Promise<boolean>;

  /** Lines that have a result, and the bytes of all results together. */
  done(id: BatchId): Promise<{ readonly lines: ReadonlySet<number>; readonly bytes: number }>;
  /** Results in order of their lines, after `afterLine`, as many as the limits take and at least one; none: those were all. */
  results(id: BatchId, isError: boolean, afterLine: number, limits: PageLimits): Promise<readonly LineResult[]>;
}
