// The inference spine as lines of batches use it.
import { withBatchDiscount } from "../../proto/price-rules.ts";
import type { ServiceTier } from "../../proto/service-tier.ts";
import type { Discounts } from "../billing/discounts.ts";
import { type RateLimiter, RateMeters } from "../quotas/rate-limiter.ts";

/** The parts of inference/complete.ts that differ for lines. */
interface PricedSpine {
  readonly rates: RateLimiter;
  readonly discounts: Pick<Discounts, "find">;
  readonly tier?: ServiceTier;
}

const noRates = { concurrent: Number.MAX_SAFE_INTEGER, tokensPerMinute: Number.MAX_SAFE_INTEGER, weight: 1 };

/**
 * Lines cost 20 % less, in addition to any other discount, and do not count against the rate limits of account and key. Instances
 * serve them after all other requests. Pace limits how
 * many lines run at a time.
 */
export function spineOfLines<Spine extends PricedSpine>(spine: Spine): Spine {
  const find: Discounts["find"] = (use, atMs) => {
    const own = spine.discounts.find(use, atMs);
    return { ...(own ?? ofBatches), basisPoints: withBatchDiscount(own?.basisPoints ?? 0) };
  };
  const meters = new RateMeters({ defaults: noRates });
  const rates: RateLimiter = { meter: meters.meter.bind(meters), keyMeter: () => undefined };
  return { ...spine, rates, discounts: { find }, tier: "batch" };
}

const ofBatches = {
  id: "batch",
  name: "Batch",
  text: "",
  account: null,
  model: null,
  surface: null,
  effectiveFromMs: 0,
  effectiveToMs: null,
};
