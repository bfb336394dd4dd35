import { Type } from "typebox";
import { gpuTypes, sizedGpuTypes } from "../../../proto/gpu.ts";
import type { Endpoints } from "../core/endpoint.ts";
import type { OperatorFeatures } from "./features.ts";
import {
  GpuLimitBody,
  GpuPoolBody,
  GpuPoolChange,
  GpuTypes,
  PendingGpuRequest,
  RateLimitBody,
  RateLimitRequest,
} from "./quotas-schemas.ts";
import { renderGpuPool, renderPending } from "./render-quotas.ts";

export function addQuotaRoutes(endpoints: Endpoints, { quotas }: OperatorFeatures): void {
  const own = endpoints.with({ tag: "account", access: "key" });
  const pool = endpoints.with({ tag: "gpu pool", access: "key" });

  own.get("/v1/me/rate_limit", {
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

  pool.get("/v1/gpu_pool/gpu_types", {
    summary: "List GPU types in display order",
    isFromMemory: true,
    answer: GpuTypes,
    handler: () => ({ gpu_types: [...sizedGpuTypes] }),
  });

  pool.get("/v1/me/gpu_pool", {
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
      gpu_type: Type.Unsafe<(typeof gpuTypes)[number]>({ type: "string", enum: [...gpuTypes] }),
      requested_limit: Type.Integer({ minimum: 0, maximum: 1_000_000 }),
      reason: Type.String({ minLength: 1, maxLength: 2048 }),
    }),
    refusals: [403, 404, 409],
    handler: ({ caller, body }) =>
      quotas.requestGpuLimit(caller.account, body.gpu_type, body.requested_limit, body.reason),
  });
}
