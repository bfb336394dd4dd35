import { type Static, Type } from "typebox";
import { gpuTypes } from "../../../proto/gpu.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { unixSeconds, unixSecondsOrNull } from "../../../proto/unix-seconds.ts";
import type { AccountLimits, GpuPool } from "../../quotas/limit-requests.ts";
import { maxWeight } from "../../quotas/rate-limits.ts";
import type { AnyLimitRequest, LimitKind, LimitRequest, ListedRequest } from "../../quotas/store.ts";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import type { OperatorFeatures } from "./features.ts";

const Counts = Type.Record(Type.String(), Type.Integer(), { description: "GPUs by type" });
/** The contract answers invalid names and numbers with 400, so the feature checks them. */
const RequestedCounts = Type.Unsafe<Readonly<Record<string, number>> | null>({
  type: ["object", "null"],
  additionalProperties: { type: "integer" },
});
const inSeconds = { description: "Unix seconds" };

const RateLimitBody = Type.Object({
  rate_limit: Type.Integer({ description: "Concurrent requests per model" }),
  tpm_rate_limit: Type.Integer({ description: "Tokens per minute, per model" }),
});

const RateLimitRequest = Type.Object({
  rate_limit: Type.Integer({ minimum: 1, maximum: 1_000_000 }),
  tpm_rate_limit: Type.Optional(nullable.integer({ minimum: 1, maximum: 1e12 })),
  reason: Type.String({ minLength: 1, maxLength: 2048 }),
});

const GpuTypes = Type.Object({ gpu_types: Type.Array(Type.String()) });

const pendingFields = {
  id: Type.String(),
  created_at: Type.Integer(inSeconds),
  requested_max: Counts,
  reason: nullable.string(),
};
const PendingGpuRequest = Type.Object(pendingFields);
type PendingGpuRequest = Static<typeof PendingGpuRequest>;

const GpuPoolBody = Type.Object({
  max_limits: Counts,
  min_limits: Counts,
  pending_request: Type.Union([PendingGpuRequest, Type.Null()]),
  last_rejection: Type.Union([
    Type.Object({ ...pendingFields, resolved_at: nullable.integer(inSeconds), resolution_reason: nullable.string() }),
    Type.Null(),
  ]),
});
type GpuPoolBody = Static<typeof GpuPoolBody>;

const GpuPoolChange = Type.Object({
  reason: Type.String({ maxLength: 2000, description: "Shown to the operator" }),
  requested_max: Type.Optional(RequestedCounts),
  requested_min: Type.Optional(RequestedCounts),
  expected_request_id: Type.Optional(
    nullable.string({ description: "Id of the open request to replace; null: no request is open" }),
  ),
});

const GpuLimitBody = Type.Object({ limits: Counts, pending_requests: Counts });

export const Decision = Type.Object({
  note: Type.String({ maxLength: 2000, description: "Shown to the account" }),
  revision: Type.Optional(nullable.integer({ description: "Revision that was read; 409 if it has changed" })),
});

const requestFields = {
  id: Type.String(),
  reason: Type.String(),
  created_at: Type.Integer(inSeconds),
  status: Type.Unsafe<"open" | "approved" | "rejected" | "withdrawn">({
    type: "string",
    enum: ["open", "approved", "rejected", "withdrawn"],
  }),
  resolved_at: nullable.integer(inSeconds),
  resolution_reason: nullable.string({ description: "The operator's answer" }),
};
const listedFields = {
  ...requestFields,
  uid: Type.String(),
  email: Type.String(),
  display_name: Type.String(),
  revision: Type.Integer(),
};
/** A limit of either kind: those of the other kind are null. */
const OwnLimitRequest = Type.Object({
  ...requestFields,
  kind: Type.Unsafe<LimitKind>({ type: "string", enum: ["rate", "gpu"] }),
  rate_limit: nullable.integer({ description: "Requested concurrent requests per model" }),
  tpm_rate_limit: nullable.integer({ description: "Requested tokens per minute, per model; null: unchanged" }),
  gpu_max: Type.Union([Counts, Type.Null()]),
  gpu_min: Type.Union([Counts, Type.Null()]),
});
type OwnLimitRequest = Static<typeof OwnLimitRequest>;
export const ListedGpuRequest = Type.Object({ ...listedFields, requested_max: Counts, requested_min: Counts });
export type ListedGpuRequest = Static<typeof ListedGpuRequest>;
export const ListedRateRequest = Type.Object({
  ...listedFields,
  rate_limit: Type.Integer(),
  tpm_rate_limit: nullable.integer(),
});
export type ListedRateRequest = Static<typeof ListedRateRequest>;

/** Null: the installation's default; omitted: unchanged. */
const SetCounts = Type.Optional(
  Type.Unsafe<Readonly<Record<string, number | null>>>({
    type: "object",
    propertyNames: { enum: gpuTypes },
    additionalProperties: { type: ["integer", "null"], minimum: 0, maximum: 1_000_000 },
  }),
);
export const LimitsUpdate = Type.Object({
  rate_limit: Type.Optional(nullable.integer({ minimum: 0, maximum: 1_000_000 })),
  tpm_rate_limit: Type.Optional(nullable.integer({ minimum: 0, maximum: 1e12 })),
  weight: Type.Optional(nullable.integer({ minimum: 1, maximum: maxWeight })),
  gpu_max: SetCounts,
  gpu_min: SetCounts,
  note: Type.Optional(Type.String({ maxLength: 2000 })),
});

export const LimitsBody = Type.Object({
  rate_limit: Type.Integer(),
  tpm_rate_limit: Type.Integer(),
  weight: Type.Integer({ description: "Share of a busy engine relative to other accounts" }),
  gpu_max: Counts,
  gpu_min: Counts,
});
export type LimitsBody = Static<typeof LimitsBody>;

const OwnRequestsQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 20 })),
});

export function addQuotaRoutes(endpoints: Endpoints, { quotas }: OperatorFeatures): void {
  const own = endpoints.with({ tag: "account", access: "key" });
  const pool = endpoints.with({ tag: "gpu pool", access: "key" });

  own.get("/v1/me/rate_limit", {
    isOpenToOperators: true,
    summary: "Get the limits of concurrent requests and tokens per minute for each model",
    answer: RateLimitBody,
    refusals: [404],
    async handler({ caller }) {
      const { concurrent, tokensPerMinute } = await quotas.rateLimits(caller.account);
      return { rate_limit: concurrent, tpm_rate_limit: tokensPerMinute };
    },
  });

  own.post("/v1/me/rate_limit/request", {
    summary: "Request higher rate limits",
    idempotent: true,
    body: RateLimitRequest,
    refusals: [400, 403, 404, 409, 429],
    async handler({ caller, body }) {
      const { rate_limit: concurrent, tpm_rate_limit: tokens, reason } = body;
      await quotas.requestRates(caller.account, { concurrent, tokensPerMinute: tokens ?? null, reason });
    },
  });

  own.delete("/v1/me/rate_limit/request/:request_id", {
    summary: "Withdraw the open request for higher rate limits",
    refusals: [404, 409],
    handler: ({ caller, params }) => quotas.withdrawRates(caller.account, params.request_id),
  });

  own.get("/v1/me/limit_requests", {
    isOpenToOperators: true,
    summary: "List the account's requests for rate limits and GPUs with the operator's answers, newest first",
    query: OwnRequestsQuery,
    answer: Type.Object({ requests: Type.Array(OwnLimitRequest) }),
    refusals: [404],
    async handler({ caller, query }) {
      return { requests: (await quotas.requestsOf(caller.account, query.limit ?? 20)).map(renderOwn) };
    },
  });

  pool.get("/v1/gpu_pool/gpu_types", {
    isOpenToOperators: true,
    summary: "List GPU types in display order: the sized ones of the contract, then others that hosts have",
    answer: GpuTypes,
    handler: async () => ({ gpu_types: [...(await quotas.gpuTypes())] }),
  });

  pool.get("/v1/me/gpu_pool", {
    isOpenToOperators: true,
    summary: "Get GPU limits and the open request",
    answer: GpuPoolBody,
    refusals: [404],
    handler: async ({ caller }) => renderGpuPool(await quotas.gpuPool(caller.account)),
  });

  pool.post("/v1/me/gpu_pool/request", {
    summary: "Request another GPU pool, or replace the open request",
    idempotent: true,
    body: GpuPoolChange,
    answer: PendingGpuRequest,
    refusals: [400, 404, 409],
    handler: async ({ caller, body }) =>
      renderPending(
        await quotas.requestGpus(caller.account, {
          max: body.requested_max ?? {},
          min: body.requested_min ?? {},
          reason: body.reason,
          expectedId: body.expected_request_id ?? null,
        }),
      ),
  });

  pool.delete("/v1/me/gpu_pool/request/:request_id", {
    summary: "Withdraw the open request",
    refusals: [404, 409],
    handler: ({ caller, params }) => quotas.withdrawGpus(caller.account, params.request_id),
  });

  pool.get("/v1/me/gpu_limit", {
    isOpenToOperators: true,
    summary: "Get GPU limits as maps",
    answer: GpuLimitBody,
    refusals: [404],
    async handler({ caller }) {
      const { max, pending } = await quotas.gpuPool(caller.account);
      return { limits: max, pending_requests: pending?.requested.max ?? {} };
    },
  });

  pool.post("/v1/me/gpu_limit/request", {
    summary: "Request another limit for one GPU type, in the open request or a new one",
    idempotent: true,
    body: Type.Object({
      gpu_type: Type.Unsafe<string>({ type: "string", enum: gpuTypes }),
      requested_limit: Type.Integer({ minimum: 0, maximum: 1_000_000 }),
      reason: Type.String({ minLength: 1, maxLength: 2048 }),
    }),
    refusals: [403, 404, 409],
    handler: ({ caller, body }) =>
      quotas.requestGpuLimit(caller.account, body.gpu_type, body.requested_limit, body.reason),
  });
}

function renderGpuPool({ max, min, pending, lastRejection }: GpuPool): GpuPoolBody {
  return {
    max_limits: max,
    min_limits: min,
    pending_request: pending ? renderPending(pending) : null,
    last_rejection: lastRejection
      ? {
          ...renderPending(lastRejection),
          resolved_at: unixSecondsOrNull(lastRejection.resolvedAtMs),
          resolution_reason: lastRejection.resolutionReason,
        }
      : null,
  };
}

/** The contract has no field for the requested minimum. */
function renderPending({ id, createdAtMs, requested, reason }: LimitRequest<"gpu">): PendingGpuRequest {
  return { id, created_at: unixSeconds(createdAtMs), requested_max: requested.max, reason };
}

export function renderListedGpu(request: ListedRequest<"gpu">): ListedGpuRequest {
  const { max, min } = request.requested;
  return { ...listed(request), requested_max: max, requested_min: min };
}

export function renderListedRate(request: ListedRequest<"rate">): ListedRateRequest {
  const { concurrent, tokensPerMinute } = request.requested;
  return { ...listed(request), rate_limit: concurrent, tpm_rate_limit: tokensPerMinute };
}

export function renderLimits({ rates, max, min }: AccountLimits): LimitsBody {
  return {
    rate_limit: rates.concurrent,
    tpm_rate_limit: rates.tokensPerMinute,
    weight: rates.weight,
    gpu_max: max,
    gpu_min: min,
  };
}

function renderOwn(request: AnyLimitRequest): OwnLimitRequest {
  const gpu = request.kind === "gpu" ? request.requested : undefined;
  const rate = request.kind === "rate" ? request.requested : undefined;
  return {
    ...answered(request),
    kind: request.kind,
    rate_limit: rate?.concurrent ?? null,
    tpm_rate_limit: rate?.tokensPerMinute ?? null,
    gpu_max: gpu?.max ?? null,
    gpu_min: gpu?.min ?? null,
  };
}

function listed(request: ListedRequest) {
  return {
    ...answered(request),
    uid: request.account,
    email: request.email,
    display_name: request.displayName,
    revision: request.revision,
  };
}

const answered = (request: LimitRequest) => ({
  id: request.id,
  reason: request.reason,
  created_at: unixSeconds(request.createdAtMs),
  status: request.decision ?? ("open" as const),
  resolved_at: unixSecondsOrNull(request.resolvedAtMs),
  resolution_reason: request.resolutionReason,
});

const Page = Type.Object({ limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: 100 })) });

export function addAdminQuotaRoutes(endpoints: Endpoints, { quotas }: OperatorFeatures): void {
  const admin = endpoints.with({ tag: "operator", access: "admin" });

  admin.get("/v1/admin/gpu-pool-requests", {
    summary: "List requests for another GPU pool, open ones first",
    query: Page,
    answer: Type.Object({ requests: Type.Array(ListedGpuRequest) }),
    handler: async ({ query }) => ({ requests: (await quotas.list("gpu", query.limit ?? 100)).map(renderListedGpu) }),
  });

  admin.get("/v1/admin/rate-limit-requests", {
    summary: "List requests for higher rate limits, open ones first",
    query: Page,
    answer: Type.Object({ requests: Type.Array(ListedRateRequest) }),
    handler: async ({ query }) => ({ requests: (await quotas.list("rate", query.limit ?? 100)).map(renderListedRate) }),
  });

  const decisions = [
    ["approve", "approved"],
    ["reject", "rejected"],
  ] as const;
  for (const [folder, kind] of [
    ["gpu-pool-requests", "gpu"],
    ["rate-limit-requests", "rate"],
  ] as const satisfies readonly (readonly [string, LimitKind])[]) {
    for (const [verb, decision] of decisions) {
      admin.post(`/v1/admin/${folder}/:request_id/${verb}`, {
        summary: verb === "approve" ? "Approve the open request" : "Reject the open request",
        body: Decision,
        refusals: [404, 409],
        async handler({ caller, params, body, reply }) {
          const act = actOf(caller, reply, body.note);
          await quotas.resolve(kind, params.request_id, decision, body.revision ?? undefined, act);
        },
      });
    }
  }

  admin.get("/v1/admin/accounts/:uid/limits", {
    summary: "Get rate limits and GPU limits of an account",
    answer: LimitsBody,
    refusals: [404],
    handler: async ({ params }) => renderLimits(await quotas.limits(params.uid as AccountId)),
  });

  admin.put("/v1/admin/accounts/:uid/limits", {
    summary: "Set limits of an account; null: the installation's default, omitted: unchanged",
    body: LimitsUpdate,
    answer: LimitsBody,
    refusals: [404],
    async handler({ caller, params, body, reply }) {
      const change = {
        ...(body.rate_limit === undefined ? {} : { concurrent: body.rate_limit }),
        ...(body.tpm_rate_limit === undefined ? {} : { tokensPerMinute: body.tpm_rate_limit }),
        ...(body.weight === undefined ? {} : { weight: body.weight }),
        ...(body.gpu_max === undefined ? {} : { max: body.gpu_max }),
        ...(body.gpu_min === undefined ? {} : { min: body.gpu_min }),
      };
      const act = actOf(caller, reply, body.note ?? "");
      return renderLimits(await quotas.setLimits(params.uid as AccountId, change, act));
    },
  });
}
