import { conflict, forbidden, notFound, rateLimited } from "../service-error.ts";

export const batchNotFound = () => notFound("batch_not_found", "Batch not found. `GET /v1/batches` lists yours.");

export const batchInputMissing = () =>
  notFound(
    "input_file_not_found",
    "File of purpose `batch` not found, or it has expired. Upload it with `POST /v1/files`.",
    { param: "input_file_id" },
  );

export const batchEnded = (status: string) =>
  conflict("batch_ended", `The batch is already ${status} and cannot be cancelled.`);

export const tooManyBatches = (limit: number) =>
  rateLimited(
    "too_many_batches",
    `Your account can have at most ${limit} unfinished batches. Wait until one finishes, or cancel one.`,
    { retryAfterSeconds: 60 },
  );

/** A browser session has no key to charge lines to. */
export const batchNeedsKey = () =>
  forbidden("api_key_required", "A batch is billed to an API key. Create it with an API key instead of a session.");
