// Storage of batches. Implemented by store/batch-store.ts. INVARIANT: every write of a run is guarded by its number, so a
// run that was taken over changes nothing.
import type { AccountId, KeyId } from "../../proto/ids.ts";
import type { Batch, BatchEndpoint, BatchError, BatchId, BatchStatus, BatchTokens } from "./batch.ts";
import type { DueBatch } from "./queue.ts";

export type { Batch, BatchError, BatchId, BatchTokens } from "./batch.ts";
export type { DueBatch } from "./queue.ts";

export interface NewBatch {
  readonly id: BatchId;
  readonly account: AccountId;
  readonly key: KeyId;
  readonly endpoint: BatchEndpoint;
  readonly inputFile: string;
  readonly metadata: Readonly<Record<string, string>> | null;
  readonly outputExpiresAfterMs: number;
  readonly windowMs: number;
  /** Number of lines, where they are known before the file is read. */
  readonly total?: number | undefined;
}

/** One run of a batch. */
export interface BatchRun {
  readonly batch: Batch;
  /** From 1. */
  readonly run: number;
  /** Consecutive runs up to this one that added no result and were not released; from 1. */
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

export interface BatchPage {
  readonly limit: number;
  /** `after`: older ones than this; `before`: the next newer ones. */
  readonly cursor?: { readonly side: "after" | "before"; readonly id: BatchId } | undefined;
  readonly endpoint?: BatchEndpoint | undefined;
}

export interface BatchList {
  readonly batches: readonly Batch[];
  /** On the side of the cursor. */
  readonly hasMore: boolean;
}

export interface BatchStore {
  /** Undefined: no such file of purpose `batch`. A number: the limit of open batches, which is reached. */
  create(batch: NewBatch, maxOpen: number): Promise<Batch | "no_file" | "too_many">;
  find(account: AccountId, id: BatchId): Promise<Batch | undefined>;
  /** Newest first; only those of `endpoint`, if given. Undefined: the cursor is unknown. */
  list(account: AccountId, page: BatchPage): Promise<BatchList | undefined>;
  /** Returns the batch afterwards, also when it had ended; undefined: unknown. */
  cancel(account: AccountId, id: BatchId): Promise<Batch | undefined>;
  /** Deletes one that has ended; its files are not touched. False: unknown, or it has not ended. */
  remove(account: AccountId, id: BatchId): Promise<boolean>;

  /** Batches without a holder, lowest rank first. */
  due(limit: number): Promise<readonly DueBatch[]>;
  /** Claims it. Undefined: another run holds it, it waits for its next run, or it has ended. */
  claim(id: BatchId, lockMs: number): Promise<BatchRun | undefined>;
  /** Undefined: another run holds it, or it has ended. */
  renew(run: BatchRun, lockMs: number): Promise<BatchStatus | undefined>;
  /** Releases it for any control plane; this run does not count as barren. */
  release(run: BatchRun): Promise<void>;
  /**
   * Delays its next run by `ms`. `problem` is shown in the batch until it ends and replaces other problems of the output.
   */
  pause(run: BatchRun, ms: number, problem: BatchError | undefined): Promise<void>;
  /** These return false when another run took over. */
  began(run: BatchRun, found: { readonly total: number; readonly model: string }): Promise<boolean>;
  failed(run: BatchRun, errors: readonly BatchError[]): Promise<boolean>;
  /** An existing line is unchanged and not counted again. */
  addResults(run: BatchRun, results: readonly LineResult[]): Promise<boolean>;
  /** Its window ended before all lines started. */
  expired(run: BatchRun): Promise<boolean>;
  /** All lines have a result, or `problem` explains the missing ones. A cancelled batch stays `cancelling`. */
  finalizing(run: BatchRun, problem?: BatchError): Promise<boolean>;
  /** Publishes the written files to the account, and marks the batch completed, expired or cancelled. */
  end(
    run: BatchRun,
    files: { readonly output: OutputFile | undefined; readonly errors: OutputFile | undefined },
  ): Promise<boolean>;

  /** Lines with a result, and the bytes of all results. */
  done(id: BatchId): Promise<{ readonly lines: ReadonlySet<number>; readonly bytes: number }>;
  /** Results in order of their lines, after `afterLine`, within the limits but at least one; empty: no more. */
  results(id: BatchId, isError: boolean, afterLine: number, limits: PageLimits): Promise<readonly LineResult[]>;
}
