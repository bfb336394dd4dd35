import type { AccountId, Id, KeyId } from "../../proto/ids.ts";

/** `batch_` and 20 letters and digits. */
export type BatchId = Id<"batch">;

export const batchEndpoints = ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"] as const;
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
  readonly code: string;
  /** From 1; null: of the whole file. */
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
  /** Its lines are this key's use. */
  readonly key: KeyId;
  readonly endpoint: BatchEndpoint;
  readonly inputFile: string;
  readonly metadata: Readonly<Record<string, string>> | null;
  readonly outputExpiresAfterMs: number;
  readonly status: BatchStatus;
  /** As its lines name it, once they were read. */
  readonly model: string | null;
  readonly errors: readonly BatchError[] | null;
  readonly counts: { readonly total: number; readonly completed: number; readonly failed: number };
  readonly tokens: BatchTokens;
  readonly outputFile: string | null;
  readonly errorFile: string | null;
  /** Unix ms; null: has not come to pass. */
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

export const mostLines = 50_000;
/** Of the results of one batch, which lie in the database until its files are written: no line begins once there are more. */
export const mostOutputBytes = 2 * 1024 ** 3;
/** In basis points: what a line costs less than the same request by itself. */
export const batchDiscountBasisPoints = 2_000;
/** Lines that have not begun so long after the batch was made are not begun any more. */
export const batchWindowMs = 24 * 3_600_000;
