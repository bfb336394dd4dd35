// Limits of one account, ada's: canned answers, and the verbs of an operator that find what they are asked about.

import { gpuLimits } from "../../control-plane/quotas/gpu-limits.ts";
import type { LimitRequests } from "../../control-plane/quotas/limit-requests.ts";
import { defaultRateLimits } from "../../control-plane/quotas/rate-limits.ts";
import type { LimitRequest, ListedRequest } from "../../control-plane/quotas/store.ts";
import { sizedGpuTypes } from "../../proto/gpu.ts";
import type { AccountId } from "../../proto/ids.ts";

const account = "u:1000000000001" as AccountId;

export const gpuRequest: LimitRequest<"gpu"> = {
  id: "gpr_01",
  account,
  kind: "gpu",
  requested: { max: { "H100-80GB": 16 }, min: { "H100-80GB": 1 } },
  reason: "launch",
  revision: 1,
  createdAtMs: 1_786_000_000_000,
  decision: null,
  resolvedAtMs: null,
  resolutionReason: null,
};
const rateRequest: LimitRequest<"rate"> = {
  ...gpuRequest,
  id: "rlr_01",
  kind: "rate",
  requested: { concurrent: 400, tokensPerMinute: null },
};
export const rejected: LimitRequest<"gpu"> = {
  ...gpuRequest,
  id: "gpr_00",
  decision: "rejected",
  resolvedAtMs: 1_785_000_000_000,
  resolutionReason: "no room",
};

export function fakeLimits(): LimitRequests {
  const limits = gpuLimits({ isAdmin: false, max: {}, min: {} }, { perType: 8 });
  const all = { ...limits, rates: defaultRateLimits };
  const owner = { email: "ada@example.com", displayName: "ada" };
  const listed: readonly ListedRequest[] = [
    { ...gpuRequest, ...owner },
    { ...rateRequest, ...owner },
  ];
  return {
    gpuTypes: () => Promise.resolve(sizedGpuTypes),
    rateLimits: () => Promise.resolve(defaultRateLimits),
    requestRates: () => Promise.resolve(),
    gpuPool: () => Promise.resolve({ ...limits, pending: gpuRequest, lastRejection: rejected }),
    requestGpus: () => Promise.resolve(gpuRequest),
    requestGpuLimit: () => Promise.resolve(gpuRequest),
    withdrawGpus: () => Promise.resolve(),
    withdrawRates: () => Promise.resolve(),
    requestsOf: () => Promise.resolve([rateRequest, rejected]),
    list: (kind) => Promise.resolve(listed.filter((one) => one.kind === kind) as never),
    resolve: () => Promise.resolve(),
    limits: () => Promise.resolve(all),
    setLimits: () => Promise.resolve(all),
  };
}
