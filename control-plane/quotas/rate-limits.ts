/** What one account may do with one model at a time. Frozen and shared between all of its models. */
export interface RateLimits {
  /** Requests running at once. */
  readonly concurrent: number;
  readonly tokensPerMinute: number;
}

export const defaultRateLimits: RateLimits = Object.freeze({ concurrent: 200, tokensPerMinute: 5_000_000 });

/** The account's own record, where it has one: null stands for the default. */
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
