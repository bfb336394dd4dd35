import { type Static, Type } from "typebox";
import { batchEndpoints } from "../../batches/batch.ts";
import { maxExpirySeconds, minExpirySeconds } from "./files-schemas.ts";

const endpoint = Type.Unsafe<(typeof batchEndpoints)[number]>({ type: "string", enum: [...batchEndpoints] });

export const BatchRequest = Type.Object({
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

export const BatchRecord = Type.Object({
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
export type BatchRecord = Static<typeof BatchRecord>;

export const BatchQuery = Type.Object({
  after: Type.Optional(Type.String({ description: "Id of the last item of the previous page" })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 20 })),
});

export const BatchList = Type.Object({
  object: Type.Literal("list"),
  data: Type.Array(BatchRecord),
  first_id: text,
  last_id: text,
  has_more: Type.Boolean(),
});
