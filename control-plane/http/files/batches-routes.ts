import { type Static, Type } from "typebox";
import { unixSeconds, unixSecondsOrNull } from "../../../proto/unix-seconds.ts";
import { type Batch, type BatchId, batchEndpoints } from "../../batches/batch.ts";
import type { Endpoints } from "../core/endpoint.ts";
import type { FileFeatures } from "./features.ts";
import { listOf, maxExpirySeconds, minExpirySeconds } from "./files-routes.ts";

const endpoint = Type.Unsafe<(typeof batchEndpoints)[number]>({ type: "string", enum: [...batchEndpoints] });

const BatchRequest = Type.Object({
  input_file_id: Type.String(),
  endpoint,
  completion_window: Type.Unsafe<"24h">({ type: "string", enum: ["24h"] }),
  metadata: Type.Optional(
    Type.Unsafe<Record<string, string> | null>({
      type: ["object", "null"],
      maxProperties: 16,
      propertyNames: { maxLength: 64 },
      additionalProperties: { type: "string", maxLength: 512 },
    }),
  ),
  output_expires_after: Type.Optional(
    Type.Object({
      anchor: Type.Unsafe<"created_at">({ type: "string", enum: ["created_at"] }),
      seconds: Type.Integer({ minimum: minExpirySeconds, maximum: maxExpirySeconds }),
    }),
  ),
});

const time = Type.Union([Type.Integer({ description: "Unix seconds" }), Type.Null()]);
const text = Type.Union([Type.String(), Type.Null()]);

const BatchRecord = Type.Object({
  id: Type.String(),
  object: Type.Literal("batch"),
  endpoint,
  model: text,
  errors: Type.Union([
    Type.Object({
      object: Type.Literal("list"),
      data: Type.Array(
        Type.Object({
          code: Type.String(),
          line: Type.Union([Type.Integer(), Type.Null()]),
          message: Type.String(),
          param: text,
        }),
      ),
    }),
    Type.Null(),
  ]),
  input_file_id: Type.String(),
  completion_window: Type.String(),
  status: Type.String({
    enum: ["validating", "in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled"],
  }),
  output_file_id: text,
  error_file_id: text,
  created_at: Type.Integer({ description: "Unix seconds" }),
  in_progress_at: time,
  expires_at: Type.Integer({ description: "Unix seconds" }),
  finalizing_at: time,
  completed_at: time,
  failed_at: time,
  expired_at: time,
  cancelling_at: time,
  cancelled_at: time,
  request_counts: Type.Object({ total: Type.Integer(), completed: Type.Integer(), failed: Type.Integer() }),
  metadata: Type.Union([Type.Record(Type.String(), Type.String()), Type.Null()]),
  usage: Type.Object({
    input_tokens: Type.Integer(),
    input_tokens_details: Type.Object({ cached_tokens: Type.Integer() }),
    output_tokens: Type.Integer(),
    output_tokens_details: Type.Object({ reasoning_tokens: Type.Integer() }),
    total_tokens: Type.Integer(),
  }),
});
type BatchRecord = Static<typeof BatchRecord>;

const BatchQuery = Type.Object({
  after: Type.Optional(Type.String({ maxLength: 64, description: "Id of the last item of the previous page" })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 20 })),
});

const BatchList = Type.Object({
  object: Type.Literal("list"),
  data: Type.Array(BatchRecord),
  first_id: text,
  last_id: text,
  has_more: Type.Boolean(),
});

const common = { answer: BatchRecord } as const;

export function addBatchRoutes(endpoints: Endpoints, { batches }: FileFeatures): void {
  const own = endpoints.with({ tag: "batches", access: "key", dialect: "compat" });

  own.post("/v1/batches", {
    ...common,
    summary: "Run the requests of a file in the background, 20 % cheaper",
    idempotent: true,
    isPaid: true,
    body: BatchRequest,
    refusals: [400, 404, 409, 429],
    async handler({ caller, body }) {
      const expiry = body.output_expires_after;
      const batch = await batches.create(caller, {
        endpoint: body.endpoint,
        inputFile: body.input_file_id,
        metadata: body.metadata ?? null,
        outputExpiresAfterMs: expiry && expiry.seconds * 1000,
      });
      return renderBatch(batch);
    },
  });
  own.get("/v1/batches", {
    isOpenToOperators: true,
    ...common,
    summary: "List batches of the account, newest first",
    query: BatchQuery,
    answer: BatchList,
    async handler({ caller, query: { after, limit = 20 } }) {
      const cursor = after === undefined ? undefined : ({ side: "after", id: after as BatchId } as const);
      const page = await batches.list(caller, { cursor, limit });
      return listOf(page.batches.map(renderBatch), page.hasMore);
    },
  });
  own.get("/v1/batches/:batch_id", {
    isOpenToOperators: true,
    ...common,
    summary: "Get a batch",
    refusals: [404],
    handler: async ({ caller, params: { batch_id } }) => renderBatch(await batches.get(caller, batch_id)),
  });
  own.post("/v1/batches/:batch_id/cancel", {
    ...common,
    summary: "Cancel a batch; finished lines are kept",
    refusals: [404, 409],
    handler: async ({ caller, params: { batch_id } }) => renderBatch(await batches.cancel(caller, batch_id)),
  });
}

function renderBatch({ times, tokens, ...batch }: Batch): BatchRecord {
  return {
    id: batch.id,
    object: "batch",
    endpoint: batch.endpoint,
    model: batch.model,
    errors: batch.errors && { object: "list", data: [...batch.errors] },
    input_file_id: batch.inputFile,
    completion_window: "24h",
    status: batch.status,
    output_file_id: batch.outputFile,
    error_file_id: batch.errorFile,
    created_at: unixSeconds(times.created),
    in_progress_at: unixSecondsOrNull(times.inProgress),
    expires_at: unixSeconds(times.expires),
    finalizing_at: unixSecondsOrNull(times.finalizing),
    completed_at: unixSecondsOrNull(times.completed),
    failed_at: unixSecondsOrNull(times.failed),
    expired_at: unixSecondsOrNull(times.expired),
    cancelling_at: unixSecondsOrNull(times.cancelling),
    cancelled_at: unixSecondsOrNull(times.cancelled),
    request_counts: { ...batch.counts },
    metadata: batch.metadata,
    usage: {
      input_tokens: tokens.input,
      input_tokens_details: { cached_tokens: tokens.cachedInput },
      output_tokens: tokens.output,
      output_tokens_details: { reasoning_tokens: tokens.reasoning },
      total_tokens: tokens.input + tokens.output,
    },
  };
}
