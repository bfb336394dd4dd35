// Batches as their owner sees them: create, list, cancel. run-batch.ts runs them.

import { randomId } from "../../proto/ids.ts";
import type { Caller } from "../accounts/caller.ts";
import { unknownCursor } from "../files/errors.ts";
import { usualExpiryMs } from "../files/files.ts";
import { conflict, forbidden, notFound, rateLimited } from "../service-error.ts";
import { type Batch, type BatchEndpoint, type BatchId, batchWindowMs } from "./batch.ts";
import type { BatchList, BatchPage, BatchStore } from "./store.ts";

export const batchNotFound = () => notFound("batch_not_found", "Batch not found. `GET /v1/batches` lists yours.");

const batchInputMissing = () =>
  notFound(
    "input_file_not_found",
    "File of purpose `batch` not found, or it has expired. Upload it with `POST /v1/files`.",
    { param: "input_file_id" },
  );

const batchEnded = (status: string) =>
  conflict("batch_ended", `The batch is already ${status} and cannot be cancelled.`);

export const batchNotEnded = (status: string) =>
  conflict("batch_not_ended", `The batch is ${status}. Cancel it, and delete it when it has ended.`);

export const tooManyBatches = (limit: number) =>
  rateLimited(
    "too_many_batches",
    `Your account can have at most ${limit} unfinished batches. Wait until one finishes, or cancel one.`,
    { retryAfterSeconds: 60 },
  );

/** A browser session has no key to charge lines to. */
export const batchNeedsKey = () =>
  forbidden("api_key_required", "A batch is billed to an API key. Create it with an API key instead of a session.");

export interface BatchParams {
  readonly endpoint: BatchEndpoint;
  readonly inputFile: string;
  readonly metadata: Readonly<Record<string, string>> | null;
  /** Lifetime of the files it writes; undefined: 30 days. */
  readonly outputExpiresAfterMs: number | undefined;
  /** Number of lines, where it is known. */
  readonly total?: number;
}

const maxOpen = 100;

export function createBatches(deps: { readonly store: BatchStore; readonly created: () => void }) {
  const { store } = deps;
  const get = async ({ account }: Caller, id: string): Promise<Batch> => {
    const batch = await store.find(account, id as BatchId);
    if (!batch) throw batchNotFound();
    return batch;
  };
  return {
    /** Throws batchNotFound. */
    get,
    /** Throws batchInputMissing, batchNeedsKey, tooManyBatches. */
    async create(
      { account, key }: Caller,
      { endpoint, inputFile, metadata, outputExpiresAfterMs = usualExpiryMs, total }: BatchParams,
    ): Promise<Batch> {
      if (key === "") throw batchNeedsKey();
      const id = `batch_${randomId(20)}` as BatchId;
      const request = { id, account, key, endpoint, inputFile, outputExpiresAfterMs, windowMs: batchWindowMs, total };
      const made = await store.create({ ...request, metadata: metadata && wellFormed(metadata) }, maxOpen);
      if (made === "no_file") throw batchInputMissing();
      if (made === "too_many") throw tooManyBatches(maxOpen);
      deps.created();
      return made;
    },
    /** Newest first. Throws unknownCursor. `cursorName`: field of the request with the cursor. */
    async list({ account }: Caller, page: BatchPage, cursorName = "after"): Promise<BatchList> {
      const found = await store.list(account, page);
      if (!found) throw unknownCursor(cursorName);
      return found;
    },
    /** Stops starting lines; running ones finish, and results are kept. Throws batchNotFound, batchEnded. */
    async cancel({ account }: Caller, id: string): Promise<Batch> {
      const batch = await store.cancel(account, id as BatchId);
      if (!batch) throw batchNotFound();
      if (batch.status !== "cancelling") throw batchEnded(batch.status);
      deps.created();
      return batch;
    },
    /** Its files stay. Throws batchNotFound, batchNotEnded. */
    async remove(caller: Caller, id: string): Promise<void> {
      if (await store.remove(caller.account, id as BatchId)) return;
      throw batchNotEnded((await get(caller, id)).status);
    },
  };
}

export type Batches = ReturnType<typeof createBatches>;

/** PostgreSQL rejects unpaired surrogates. */
const wellFormed = (metadata: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(metadata).map(([name, value]) => [name.toWellFormed(), value.toWellFormed()]));
