// Batches as their owner sees them: create, list, cancel. run-batch.ts runs them.
import { randomId } from "../../proto/ids.ts";
import type { Caller } from "../accounts/caller.ts";
import { unknownCursor } from "../files/errors.ts";
import { usualExpiryMs } from "../files/files.ts";
import { type Batch, type BatchEndpoint, type BatchId, batchWindowMs } from "./batch.ts";
import { batchEnded, batchInputMissing, batchNeedsKey, batchNotFound, tooManyBatches } from "./errors.ts";
import type { BatchStore } from "./store.ts";

export interface BatchParams {
  readonly endpoint: BatchEndpoint;
  readonly inputFile: string;
  readonly metadata: Readonly<Record<string, string>> | null;
  /** Lifetime of the files it writes; undefined: 30 days. */
  readonly outputExpiresAfterMs: number | undefined;
}

export interface Batches {
  /** Throws batchInputMissing, batchNeedsKey, tooManyBatches. */
  create(caller: Caller, request: BatchParams): Promise<Batch>;
  /** Throws batchNotFound. */
  get(caller: Caller, id: string): Promise<Batch>;
  /** Newest first. Throws unknownCursor. */
  list(
    caller: Caller,
    after: string | undefined,
    limit: number,
  ): Promise<{ readonly batches: readonly Batch[]; readonly hasMore: boolean }>;
  /** Stops starting lines; running ones finish, and results are kept. Throws batchNotFound, batchEnded. */
  cancel(caller: Caller, id: string): Promise<Batch>;
}

const maxOpen = 100;

export function createBatches(deps: { readonly store: BatchStore; readonly created: () => void }): Batches {
  const { store } = deps;
  return {
    async create({ account, key }, { endpoint, inputFile, metadata, outputExpiresAfterMs = usualExpiryMs }) {
      if (key === "") throw batchNeedsKey();
      const id = `batch_${randomId(20)}` as BatchId;
      const request = { id, account, key, endpoint, inputFile, outputExpiresAfterMs, windowMs: batchWindowMs };
      const made = await store.create({ ...request, metadata: metadata && wellFormed(metadata) }, maxOpen);
      if (made === "no_file") throw batchInputMissing();
      if (made === "too_many") throw tooManyBatches(maxOpen);
      deps.created();
      return made;
    },
    async get({ account }, id) {
      const batch = await store.find(account, id as BatchId);
      if (!batch) throw batchNotFound();
      return batch;
    },
    async list({ account }, after, limit) {
      const page = await store.list(account, after as BatchId | undefined, limit);
      if (!page) throw unknownCursor();
      return page;
    },
    async cancel({ account }, id) {
      const batch = await store.cancel(account, id as BatchId);
      if (!batch) throw batchNotFound();
      if (batch.status !== "cancelling") throw batchEnded(batch.status);
      deps.created();
      return batch;
    },
  };
}

/** PostgreSQL rejects unpaired surrogates. */
const wellFormed = (metadata: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(metadata).map(([name, value]) => [name.toWellFormed(), value.toWellFormed()]));
