/** Rate limits of one account for each model. Frozen and shared by all of its models. */
export interface RateLimits {
  /** Maximum concurrent requests. */
  readonly concurrent: number;
  readonly tokensPerMinute: number;
}

export const defaultRateLimits: RateLimits = Object.freeze({ concurrent: 200, tokensPerMinute: 5_000_000 });

/** The account's own limits, if any; null: the default. */
export interface OwnRateLimits {
  readonly concurrent: number | null;
  readonly tokensPerMinute: number | null;
}

export function effectiveRateLimits(own: OwnRateLimits | undefined, defaults: RateLimits): RateLimits {
  if (!own) return defaults;
  return Object.freeze({
    concurrent: own.concurrent ?? defaults.concurrent,
    tokensPerMinute: own.tokensPerMinute ?? defaults.tokensPerMinute,
  });
}
