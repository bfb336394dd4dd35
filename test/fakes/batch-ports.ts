// Batches of one account in memory: the real verbs over a store that runs nothing.
import type { Batch } from "../../control-plane/batches/batch.ts";
import { type Batches, createBatches } from "../../control-plane/batches/batches.ts";
import type { BatchStore } from "../../control-plane/batches/store.ts";
import type { HttpDeps } from "../../control-plane/http/core/create-http.ts";
import type { AccountId, KeyId } from "../../proto/ids.ts";

export const batchId = "batch_ofAda";
export const endedBatchId = "batch_endedOfAda";
export const messageBatchId = "batch_messagesOfAda";

export const batch = (change: Partial<Batch> = {}): Batch => ({
  id: batchId as Batch["id"],
  account: "u:1000000000001" as AccountId,
  key: "key-ada" as KeyId,
  endpoint: "/v1/chat/completions",
  inputFile: "file_ofAda",
  metadata: null,
  outputExpiresAfterMs: 2_592_000_000,
  status: "in_progress",
  model: "org/model",
  errors: null,
  counts: { total: 3, completed: 1, failed: 1 },
  tokens: { input: 10, cachedInput: 4, output: 5, reasoning: 2 },
  outputFile: null,
  errorFile: null,
  times: {
    created: 1_786_000_000_000,
    expires: 1_786_086_400_000,
    inProgress: 1_786_000_001_000,
    finalizing: null,
    completed: null,
    failed: null,
    expired: null,
    cancelling: null,
    cancelled: null,
  },
  ...change,
});

/** One that runs and one that has ended. `files`: those of its input. */
export function fakeBatches(owner: AccountId, files: readonly string[]): HttpDeps["batches"] {
  const ended = { id: endedBatchId as Batch["id"], status: "completed" } as const;
  const ofMessages = batch({
    id: messageBatchId as Batch["id"],
    account: owner,
    endpoint: "/v1/messages",
    status: "completed",
    counts: { total: 3, completed: 2, failed: 1 },
    outputFile: files[0] ?? null,
    times: { ...batch().times, completed: 1_786_000_002_000 },
  });
  const all = [batch({ account: owner }), batch({ account: owner, ...ended }), ofMessages];
  const batches = new Map(all.map((one) => [one.id, one]));
  const find = (account: AccountId, id: string) => {
    const found = batches.get(id as Batch["id"]);
    return Promise.resolve(found?.account === account ? found : undefined);
  };
  const store: Pick<BatchStore, "create" | "find" | "list" | "cancel" | "remove"> = {
    create: ({ windowMs: _, total = 0, ...request }) =>
      Promise.resolve(
        files.includes(request.inputFile)
          ? batch({ ...request, status: "validating", counts: { total, completed: 0, failed: 0 } })
          : "no_file",
      ),
    find,
    async list(account, { cursor, limit, endpoint }) {
      const all = [...batches.values()].filter(
        (one) => one.account === account && (endpoint === undefined || one.endpoint === endpoint),
      );
      const at = all.findIndex((one) => one.id === cursor?.id);
      if (cursor !== undefined && at < 0) return undefined;
      if (cursor?.side === "before") return { batches: all.slice(Math.max(0, at - limit), at), hasMore: at > limit };
      const from = at + 1;
      return { batches: all.slice(from, from + limit), hasMore: all.length > from + limit };
    },
    async remove(account, id) {
      const found = await find(account, id);
      return found?.status === "completed" && batches.delete(found.id);
    },
    async cancel(account, id) {
      const found = await find(account, id);
      return found && (found.status === "in_progress" ? { ...found, status: "cancelling" } : found);
    },
  };
  const verbs: Batches = createBatches({ store: store as BatchStore, created: () => {} });
  return { ...verbs, runWith: () => {} };
}
