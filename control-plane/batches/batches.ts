// Batches as their owner sees them: made, listed, cancelled. They are run by run-batch.ts.
import { randomId } from "../../proto/ids.ts";
import type { Caller } from "../accounts/caller.ts";
import { UnknownCursor } from "../files/errors.ts";
import { usualExpiryMs } from "../files/files.ts";
import { type Batch, type BatchEndpoint, type BatchId, batchWindowMs } from "./batch.ts";
import { BatchEnded, BatchInputMissing, BatchNeedsKey, BatchNotFound, TooManyBatches } from "./errors.ts";
import type { BatchStore } from "./store.ts";

export interface BatchWish {
  readonly endpoint: BatchEndpoint;
  readonly inputFile: string;
  readonly metadata: Readonly<Record<string, string>> | null;
  /** Of the files it writes; undefined: 30 days. */
  readonly outputExpiresAfterMs: number | undefined;
}

export interface Batches {
  /** Throws BatchInputMissing, BatchNeedsKey, TooManyBatches. */
  create(caller: Caller, wish: BatchWish): Promise<Batch>;
  /** Throws BatchNotFound. */
  get(caller: Caller, id: string): Promise<Batch>;
  /** Newest first. Throws UnknownCursor. */
  list(
    caller: Caller,
    after: string | undefined,
    limit: number,
  ): Promise<{ readonly batches: readonly Batch[]; readonly hasMore: boolean }>;
  /** No line begins any more; those that run end, and what was done is kept. Throws BatchNotFound, BatchEnded. */
  cancel(caller: Caller, id: string): Promise<Batch>;
}

const mostOpen = 100;

export function createBatches(deps: { readonly store: BatchStore; readonly created: () => void }): Batches {
  const { store } = deps;
  return {
    async create({ account, key }, { endpoint, inputFile, metadata, outputExpiresAfterMs = usualExpiryMs }) {
      if (key === "") throw new BatchNeedsKey();
      const id = `batch_${randomId(20)}` as BatchId;
      const wish = { id, account, key, endpoint, inputFile, outputExpiresAfterMs, windowMs: batchWindowMs };
      const made = await store.create({ ...wish, metadata: metadata && wellFormed(metadata) }, mostOpen);
      if (made === "no_file") throw new BatchInputMissing();
      if (made === "too_many") throw new TooManyBatches(mostOpen);
      deps.created();
      return made;
    },
    async get({ account }, id) {
      const batch = await store.find(account, id as BatchId);
      if (!batch) throw new BatchNotFound();
      return batch;
    },
    async list({ account }, after, limit) {
      const page = await store.list(account, after as BatchId | undefined, limit);
      if (!page) throw new UnknownCursor();
      return page;
    },
    async cancel({ account }, id) {
      const batch = await store.cancel(account, id as BatchId);
      if (!batch) throw new BatchNotFound();
      if (batch.status !== "cancelling") throw new BatchEnded(batch.status);
      deps.created();
      return batch;
    },
  };
}

/** PostgreSQL keeps no halves of characters. */
const wellFormed = (metadata: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(metadata).map(([name, value]) => [name.toWellFormed(), value.toWellFormed()]));
