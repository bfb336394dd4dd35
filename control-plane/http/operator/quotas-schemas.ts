import { type Static, Type } from "typebox";
import { gpuTypes } from "../../../proto/gpu.ts";
import { nullable } from "../inference/sampling-schemas.ts";

const Counts = Type.Record(Type.String(), Type.Integer(), { description: "GPUs by type" });
/** The contract answers invalid names and numbers with 400, so the feature checks them. */
const RequestedCounts = Type.Unsafe<Readonly<Record<string, number>> | null>({
  type: ["object", "null"],
  additionalProperties: { type: "integer" },
});
const unixSeconds = { description: "Unix seconds" };

export const RateLimitBody = Type.Object({
  rate_limit: Type.Integer({ description: "Concurrent requests per model" }),
  tpm_rate_limit: Type.Integer({ description: "Tokens per minute, per model" }),
});

export const RateLimitRequest = Type.Object({
  rate_limit: Type.Integer({ minimum: 1, maximum: 1_000_000 }),
  tpm_rate_limit: Type.Optional(nullable.integer({ minimum: 1, maximum: 1e12 })),
  reason: Type.String({ minLength: 1, maxLength: 2048 }),
});

export const GpuTypes = Type.Object({ gpu_types: Type.Array(Type.String()) });

const pending = {
  id: Type.String(),
  created_at: Type.Integer(unixSeconds),
  requested_max: Counts,
  reason: nullable.string(),
};
export const PendingGpuRequest = Type.Object(pending);
export type PendingGpuRequest = Static<typeof PendingGpuRequest>;

export const GpuPoolBody = Type.Object({
  max_limits: Counts,
  min_limits: Counts,
  pending_request: Type.Union([PendingGpuRequest, Type.Null()]),
  last_rejection: Type.Union([
    Type.Object({ ...pending, resolved_at: nullable.integer(unixSeconds), resolution_reason: nullable.string() }),
    Type.Null(),
  ]),
});
export type GpuPoolBody = Static<typeof GpuPoolBody>;

export const GpuPoolChange = Type.Object({
  reason: Type.String({ maxLength: 2000, description: "Shown to the operator" }),
  requested_max: Type.Optional(RequestedCounts),
  requested_min: Type.Optional(RequestedCounts),
  expected_request_id: Type.Optional(
    nullable.string({ description: "Id of the open request to replace; null: no request is open" }),
  ),
});

export const GpuLimitBody = Type.Object({ limits: Counts, pending_requests: Counts });

export const Decision = Type.Object({
  note: Type.String({ maxLength: 2000, description: "Shown to the account" }),
  revision: Type.Optional(nullable.integer({ description: "Revision that was read; 409 if it has changed" })),
});

const listed = {
  id: Type.String(),
  uid: Type.String(),
  email: Type.String(),
  display_name: Type.String(),
  reason: Type.String(),
  revision: Type.Integer(),
  created_at: Type.Integer(unixSeconds),
  status: Type.Unsafe<string>({ type: "string", enum: ["open", "approved", "rejected", "withdrawn"] }),
  resolved_at: nullable.integer(unixSeconds),
  resolution_reason: nullable.string(),
};
export const ListedGpuRequest = Type.Object({ ...listed, requested_max: Counts, requested_min: Counts });
export type ListedGpuRequest = Static<typeof ListedGpuRequest>;
export const ListedRateRequest = Type.Object({
  ...listed,
  rate_limit: Type.Integer(),
  tpm_rate_limit: nullable.integer(),
});
export type ListedRateRequest = Static<typeof ListedRateRequest>;

/** Null: the installation's default; omitted: unchanged. */
const SetCounts = Type.Optional(
  Type.Unsafe<Readonly<Record<string, number | null>>>({
    type: "object",
    propertyNames: { enum: [...gpuTypes] },
    additionalProperties: { type: ["integer", "null"], minimum: 0, maximum: 1_000_000 },
  }),
);
export const LimitsUpdate = Type.Object({
  rate_limit: Type.Optional(nullable.integer({ minimum: 0, maximum: 1_000_000 })),
  tpm_rate_limit: Type.Optional(nullable.integer({ minimum: 0, maximum: 1e12 })),
  gpu_max: SetCounts,
  gpu_min: SetCounts,
  note: Type.Optional(Type.String({ maxLength: 2000 })),
});

export const LimitsBody = Type.Object({
  rate_limit: Type.Integer(),
  tpm_rate_limit: Type.Integer(),
  gpu_max: Counts,
  gpu_min: Counts,
});
export type LimitsBody = Static<typeof LimitsBody>;
