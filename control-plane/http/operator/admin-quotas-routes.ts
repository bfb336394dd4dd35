import { Type } from "typebox";
import type { AccountId } from "../../../proto/ids.ts";
import type { LimitKind } from "../../quotas/store.ts";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import type { OperatorFeatures } from "./features.ts";
import { Decision, LimitsBody, LimitsUpdate, ListedGpuRequest, ListedRateRequest } from "./quotas-schemas.ts";
import { renderLimits, renderListedGpu, renderListedRate } from "./render-quotas.ts";

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
        ...(body.gpu_max === undefined ? {} : { max: body.gpu_max }),
        ...(body.gpu_min === undefined ? {} : { min: body.gpu_min }),
      };
      const act = actOf(caller, reply, body.note ?? "");
      return renderLimits(await quotas.setLimits(params.uid as AccountId, change, act));
    },
  });
}
