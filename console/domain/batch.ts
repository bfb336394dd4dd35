import type { Responses } from "../../proto/gen/responses.ts";

export type Batch = Responses["GET /v1/batches/{batch_id}"];

export const batchEndpoints = [
  "/v1/chat/completions",
  "/v1/completions",
  "/v1/embeddings",
  "/v1/responses",
  "/v1/messages",
] as const;

const running: readonly string[] = ["validating", "in_progress", "finalizing", "cancelling"];

export const isRunning = ({ status }: Pick<Batch, "status">): boolean => running.includes(status);

/** Unix seconds of its end. Null while it runs. */
export const endOf = (one: Batch): number | null =>
  one.completed_at ?? one.failed_at ?? one.expired_at ?? one.cancelled_at;
