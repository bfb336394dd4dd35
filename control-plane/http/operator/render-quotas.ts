import { unixSeconds, unixSecondsOrNull } from "../../../proto/unix-seconds.ts";
import type { AccountLimits, GpuPool } from "../../quotas/limit-requests.ts";
import type { LimitRequest, ListedRequest } from "../../quotas/store.ts";
import type {
  GpuPoolBody,
  LimitsBody,
  ListedGpuRequest,
  ListedRateRequest,
  PendingGpuRequest,
} from "./quotas-schemas.ts";

export function renderGpuPool({ max, min, pending, lastRejection }: GpuPool): GpuPoolBody {
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
export function renderPending({ id, createdAtMs, requested, reason }: LimitRequest<"gpu">): PendingGpuRequest {
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
  return { rate_limit: rates.concurrent, tpm_rate_limit: rates.tokensPerMinute, gpu_max: max, gpu_min: min };
}

function listed(request: ListedRequest) {
  return {
    id: request.id,
    uid: request.account,
    email: request.email,
    display_name: request.displayName,
    reason: request.reason,
    revision: request.revision,
    created_at: unixSeconds(request.createdAtMs),
    status: request.decision ?? "open",
    resolved_at: unixSecondsOrNull(request.resolvedAtMs),
    resolution_reason: request.resolutionReason,
  };
}
