import { unixSeconds, unixSecondsOrNull } from "../../../proto/unix-seconds.ts";
import type { Batch } from "../../batches/batch.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { BatchList, BatchQuery, BatchRecord, BatchRequest } from "./batches-schemas.ts";
import type { FileFeatures } from "./features.ts";
import { listOf } from "./files-routes.ts";

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
    ...common,
    summary: "List batches of the account, newest first",
    query: BatchQuery,
    answer: BatchList,
    async handler({ caller, query: { after, limit = 20 } }) {
      const page = await batches.list(caller, after, limit);
      return listOf(page.batches.map(renderBatch), page.hasMore);
    },
  });
  own.get("/v1/batches/:batch_id", {
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
