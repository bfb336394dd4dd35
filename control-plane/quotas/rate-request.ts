import { RateRequestOpen, RateRequestRefused, RequestForbidden } from "./errors.ts";
import { effectiveRateLimits, type RateLimits } from "./rate-limits.ts";
import type { Filing, LimitRecord, LimitRequest } from "./store.ts";

export interface RateWish {
  readonly concurrent: number;
  /** Null: as it is. */
  readonly tokensPerMinute: number | null;
  readonly reason: string;
}

/** Throws RequestForbidden, RateRequestOpen, RateRequestRefused. */
export function fileRateRequest(
  wish: RateWish,
  record: LimitRecord,
  open: LimitRequest | undefined,
  defaults: RateLimits,
): Filing<"rate"> {
  if (record.suspendReason !== null) throw new RequestForbidden(record.suspendReason);
  if (open) throw new RateRequestOpen();
  const now = effectiveRateLimits(record.rate, defaults);
  const tokensPerMinute = wish.tokensPerMinute ?? now.tokensPerMinute;
  const isLower = wish.concurrent < now.concurrent || tokensPerMinute < now.tokensPerMinute;
  const isHigher = wish.concurrent > now.concurrent || tokensPerMinute > now.tokensPerMinute;
  if (isLower || !isHigher) throw new RateRequestRefused(now.concurrent, now.tokensPerMinute);
  return {
    requested: { concurrent: wish.concurrent, tokensPerMinute: wish.tokensPerMinute },
    reason: wish.reason,
  };
}
