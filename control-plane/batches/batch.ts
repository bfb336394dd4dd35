import type { AccountId, Id, KeyId } from "../../proto/ids.ts";
import type { ErrorCode } from "../error-codes.ts";

/** `batch_` and 20 letters and digits. */
export type BatchId = Id<"batch">;

export const batchEndpoints = [
  "/v1/chat/completions",
  "/v1/completions",
  "/v1/embeddings",
  "/v1/responses",
  "/v1/messages",
] as const;
export type BatchEndpoint = (typeof batchEndpoints)[number];

export type BatchStatus =
  | "validating"
  | "in_progress"
  | "finalizing"
  | "completed"
  | "failed"
  | "expired"
  | "cancelling"
  | "cancelled";

export interface BatchError {
  readonly code: ErrorCode;
  /** From 1; null: the whole file. */
  readonly line: number | null;
  readonly message: string;
  readonly param: string | null;
}

export interface BatchTokens {
  readonly input: number;
  readonly cachedInput: number;
  readonly output: number;
  readonly reasoning: number;
}

export interface Batch {
  readonly id: BatchId;
  readonly account: AccountId;
  /** Key that its lines are charged to. */
  readonly key: KeyId;
  readonly endpoint: BatchEndpoint;
  readonly inputFile: string;
  readonly metadata: Readonly<Record<string, string>> | null;
  readonly outputExpiresAfterMs: number;
  readonly status: BatchStatus;
  /** Named by its lines; null until they were read. */
  readonly model: string | null;
  readonly errors: readonly BatchError[] | null;
  readonly counts: { readonly total: number; readonly completed: number; readonly failed: number };
  readonly tokens: BatchTokens;
  readonly outputFile: string | null;
  readonly errorFile: string | null;
  /** Unix ms; null: not reached. */
  readonly times: {
    readonly created: number;
    readonly expires: number;
    readonly inProgress: number | null;
    readonly finalizing: number | null;
    readonly completed: number | null;
    readonly failed: number | null;
    readonly expired: number | null;
    readonly cancelling: number | null;
    readonly cancelled: number | null;
  };
}

export const maxLines = 50_000;
/** Maximum bytes of a batch's results, which are in the database until its files are written: beyond it no line starts. */
export const maxOutputBytes = 2 * 1024 ** 3;
/** Lines that have not started this long after the batch's creation expire. */
export const batchWindowMs = 24 * 3_600_000;
