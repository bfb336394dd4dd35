import { rateRequestOpen, rateRequestRefused, requestForbidden } from "./errors.ts";
import { effectiveRateLimits, type RateLimits } from "./rate-limits.ts";
import type { Filing, LimitRecord, LimitRequest } from "./store.ts";

export interface RateLimitParams {
  readonly concurrent: number;
  /** Null: unchanged. */
  readonly tokensPerMinute: number | null;
  readonly reason: string;
}

/** Throws requestForbidden, rateRequestOpen, rateRequestRefused. */
export function fileRateRequest(
  request: RateLimitParams,
  record: LimitRecord,
  open: LimitRequest | undefined,
  defaults: RateLimits,
): Filing<"rate"> {
  if (record.suspendReason !== null) throw requestForbidden(record.suspendReason);
  if (open) throw rateRequestOpen();
  const now = effectiveRateLimits(record.rate, defaults);
  const tokensPerMinute = request.tokensPerMinute ?? now.tokensPerMinute;
  const isLower = request.concurrent < now.concurrent || tokensPerMinute < now.tokensPerMinute;
  const isHigher = request.concurrent > now.concurrent || tokensPerMinute > now.tokensPerMinute;
  if (isLower || !isHigher) throw rateRequestRefused(now.concurrent, now.tokensPerMinute);
  return {
    requested: { concurrent: request.concurrent, tokensPerMinute: request.tokensPerMinute },
    reason: request.reason,
  };
}
