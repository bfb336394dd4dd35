// Anthropic's message batches: batches of `/v1/messages`, whose requests come in the body and whose results are one list.
import { Readable } from "node:stream";
import { type Static, Type } from "typebox";
import { type Batch, type BatchId, batchWindowMs } from "../../batches/batch.ts";
import { batchNotEnded, batchNotFound } from "../../batches/batches.ts";
import { validate } from "../../batches/validate.ts";
import { FileNotFound } from "../../files/errors.ts";
import type { Spine } from "../../inference/complete.ts";
import { badRequest, invalid, notFound } from "../../service-error.ts";
import { mediaLimitBytes } from "../body/json-body.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import type { FileFeatures } from "./features.ts";
import { messageResults } from "./message-results.ts";

const endpoint = "/v1/messages";
/** Name of the input files that these routes create. */
const inputName = "message_batch.jsonl";

const MessageBatchRequest = Type.Object({
  requests: Type.Array(
    Type.Object({
      custom_id: Type.String({ pattern: "^[a-zA-Z0-9_-]{1,64}$", description: "Unique in the batch" }),
      params: Type.Object(
        { model: Type.String({ maxLength: 256, description: "The same in all requests" }) },
        { description: "Body of `POST /v1/messages`, without `stream`. It is checked when it runs" },
      ),
    }),
    { minItems: 1, description: "The size of the body limits them to about 2,000 short ones; a file may have more" },
  ),
});
type MessageBatchRequest = Static<typeof MessageBatchRequest>;

const time = { description: "RFC 3339" };
const MessageBatch = Type.Object({
  id: Type.String(),
  type: Type.Literal("message_batch"),
  processing_status: Type.Unsafe<"in_progress" | "canceling" | "ended">({
    type: "string",
    enum: ["in_progress", "canceling", "ended"],
  }),
  request_counts: Type.Object({
    processing: Type.Integer(),
    succeeded: Type.Integer(),
    errored: Type.Integer(),
    canceled: Type.Integer({ description: "In a canceled batch all without a message. Its results say which failed" }),
    expired: Type.Integer({ description: "In an expired batch all without a message. Its results say which failed" }),
  }),
  created_at: Type.String(time),
  expires_at: Type.String(time),
  ended_at: nullable.string(time),
  cancel_initiated_at: nullable.string(time),
  archived_at: Type.Null(),
  results_url: nullable.string({ description: "Set when the batch has ended" }),
});
type MessageBatch = Static<typeof MessageBatch>;

const DeletedMessageBatch = Type.Object({ id: Type.String(), type: Type.Literal("message_batch_deleted") });

const id = (description: string) => Type.Optional(Type.String({ maxLength: 64, description }));
const MessageBatchQuery = Type.Object({
  after_id: id("Id of the last item of a page: the next older ones"),
  before_id: id("Id of the first item of a page: the next newer ones. Not with `after_id`"),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 20 })),
});

const MessageBatchList = Type.Object({
  data: Type.Array(MessageBatch),
  first_id: nullable.string({}),
  last_id: nullable.string({}),
  has_more: Type.Boolean(),
});

export function addMessageBatchRoutes(endpoints: Endpoints, { models }: Spine, features: FileFeatures): void {
  const { batches, files, publicUrl } = features;
  const own = endpoints.with({ tag: "batches", access: "key", dialect: "messages" });
  const render = (batch: Batch) => renderMessageBatch(batch, publicUrl ?? "");

  const find = async (caller: Parameters<typeof batches.get>[0], batchId: string): Promise<Batch> => {
    const batch = await batches.get(caller, batchId);
    if (batch.endpoint !== endpoint) throw batchNotFound();
    return batch;
  };

  own.post("/v1/messages/batches", {
    summary: "Run messages in the background, 20 % cheaper, in Anthropic's format",
    idempotent: true,
    isPaid: true,
    bodyLimitBytes: mediaLimitBytes,
    body: MessageBatchRequest,
    answer: MessageBatch,
    refusals: [400, 409, 413, 429],
    async handler({ caller, body, reply }) {
      const { requests } = (reply.request.readBody?.exact ?? body) as MessageBatchRequest;
      const lines = () => Readable.from(linesOf(requests), { objectMode: false });
      const found = await validate(lines(), endpoint, (name) => models.resolve(name, caller.account) !== undefined);
      if (!found.ok) throw unusable(found.errors[0]);
      const staged = await files.stage(caller.account, lines(), AbortSignal.timeout(stageMs));
      try {
        // The batch keeps its input until it has ended.
        const file = await staged.keep({ filename: inputName, expiresAfterMs: batchWindowMs });
        const request = { endpoint, inputFile: file.id, metadata: null, outputExpiresAfterMs: undefined } as const;
        try {
          return render(await batches.create(caller, { ...request, total: requests.length }));
        } catch (error) {
          await files.remove(caller.account, file.id);
          throw error;
        }
      } finally {
        await staged.discard();
      }
    },
  });
  own.get("/v1/messages/batches", {
    isOpenToOperators: true,
    summary: "List message batches of the account, newest first",
    query: MessageBatchQuery,
    answer: MessageBatchList,
    async handler({ caller, query: { after_id: after, before_id: before, limit = 20 } }) {
      if (after !== undefined && before !== undefined) throw twoCursors();
      const side = before === undefined ? "after" : "before";
      const cursor = before ?? after;
      const page = await batches.list(
        caller,
        { limit, endpoint, cursor: cursor === undefined ? undefined : { side, id: cursor as BatchId } },
        `${side}_id`,
      );
      const data = page.batches.map(render);
      return { data, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null, has_more: page.hasMore };
    },
  });
  own.get("/v1/messages/batches/:batch_id", {
    isOpenToOperators: true,
    summary: "Get a message batch",
    answer: MessageBatch,
    refusals: [404],
    handler: async ({ caller, params: { batch_id } }) => render(await find(caller, batch_id)),
  });
  own.delete("/v1/messages/batches/:batch_id", {
    summary: "Delete a message batch that has ended, with its requests and results",
    answer: DeletedMessageBatch,
    refusals: [404, 409],
    async handler({ caller, params: { batch_id } }) {
      const { id: batchId, status, inputFile, outputFile, errorFile } = await find(caller, batch_id);
      if (!hasEnded(status)) throw batchNotEnded(status);
      // Files first: a batch that is left over after a crash can be deleted again.
      const input = await files.get(caller.account, inputFile).catch(ifGone);
      // An input that the customer uploaded stays.
      const ownInput = input?.filename === inputName ? inputFile : null;
      for (const file of [ownInput, outputFile, errorFile])
        if (file !== null) await files.remove(caller.account, file).catch(ifGone);
      await batches.remove(caller, batchId);
      return { id: batchId, type: "message_batch_deleted" as const };
    },
  });
  own.post("/v1/messages/batches/:batch_id/cancel", {
    summary: "Cancel a message batch; finished messages are kept",
    answer: MessageBatch,
    refusals: [404, 409],
    async handler({ caller, params: { batch_id } }) {
      await find(caller, batch_id);
      return render(await batches.cancel(caller, batch_id));
    },
  });
  own.get("/v1/messages/batches/:batch_id/results", {
    summary: "Stream the results of a message batch as JSON lines, in any order",
    answer: Type.Unsafe<unknown>({ contentMediaType: "application/x-jsonl" }),
    refusals: [404],
    async handler({ caller, params: { batch_id }, reply }) {
      const { outputFile, errorFile } = await find(caller, batch_id);
      const names = [outputFile, errorFile].filter((name) => name !== null);
      if (names.length === 0) throw noResults();
      const results = await messageResults(names, async (name) => (await files.content(caller.account, name)).body);
      reply.type("application/x-jsonl");
      return results;
    },
  });
}

const stageMs = 60_000;

/** Errors that name lines and fields of a file, in the words of this body. */
const inThisBody: Readonly<Record<string, string>> = {
  stream_not_supported: "Batches do not support streaming. Remove `params.stream`.",
  duplicate_custom_id: "Its `custom_id` is used by an earlier request. Make them unique.",
  mismatched_model: "All requests of a batch must name the same model. Send others in a batch of their own.",
};

const unusable = (
  error: { readonly code: string; readonly message: string; readonly line: number | null } | undefined,
) => {
  const message = (error && (inThisBody[error.code] ?? error.message)) ?? "It cannot be read.";
  return badRequest("invalid_batch", `requests[${(error?.line ?? 1) - 1}]: ${message}`);
};

const twoCursors = () =>
  invalid("invalid_value", "`after_id` and `before_id` exclude each other. Send one of them.", {
    param: "before_id",
    in: "query",
  });

const noResults = () =>
  notFound("results_not_found", "The batch has no results: it has not ended, or they have expired.");

function* linesOf(requests: MessageBatchRequest["requests"]): Generator<string> {
  for (const { custom_id, params } of requests)
    yield `${JSON.stringify({ custom_id, method: "POST", url: endpoint, body: params })}\n`;
}

const ended = ["completed", "failed", "expired", "cancelled"] as const;
const hasEnded = (status: Batch["status"]): status is (typeof ended)[number] =>
  (ended as readonly string[]).includes(status);

function renderMessageBatch({ id: batchId, status, counts, times, ...batch }: Batch, origin: string): MessageBatch {
  const { total, completed, failed } = counts;
  const isOver = hasEnded(status);
  const endedAtMs = isOver ? times[status] : null;
  const left = Math.max(0, total - completed - failed);
  const without = isOver ? failed + left : failed;
  return {
    id: batchId,
    type: "message_batch",
    processing_status: isOver ? "ended" : status === "cancelling" ? "canceling" : "in_progress",
    request_counts: {
      processing: isOver ? 0 : left,
      succeeded: completed,
      errored: status === "cancelled" || status === "expired" ? 0 : without,
      canceled: status === "cancelled" ? without : 0,
      expired: status === "expired" ? without : 0,
    },
    created_at: timeOf(times.created),
    expires_at: timeOf(times.expires),
    ended_at: endedAtMs === null ? null : timeOf(endedAtMs),
    cancel_initiated_at: times.cancelling === null ? null : timeOf(times.cancelling),
    archived_at: null,
    results_url:
      batch.outputFile === null && batch.errorFile === null ? null : `${origin}/v1/messages/batches/${batchId}/results`,
  };
}

const timeOf = (ms: number): string => new Date(ms).toISOString();

function ifGone(error: unknown): undefined {
  if (!(error instanceof FileNotFound)) throw error;
}
