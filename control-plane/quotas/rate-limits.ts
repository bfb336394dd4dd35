/** Rate limits of one account for each model. Frozen and shared by all of its models. */
export interface RateLimits {
  /** Maximum concurrent requests. */
  readonly concurrent: number;
  readonly tokensPerMinute: number;
  /** Share of a busy engine relative to other accounts, 1 to `maxWeight`: an account of weight 2 is served twice the tokens of one of weight 1. */
  readonly weight: number;
}

export const maxWeight = 100;

export const defaultRateLimits: RateLimits = Object.freeze({ concurrent: 200, tokensPerMinute: 5_000_000, weight: 1 });

/** The account's own limits, if any; null: the default. */
export interface OwnRateLimits {
  readonly concurrent: number | null;
  readonly tokensPerMinute: number | null;
  readonly weight: number | null;
}

export function effectiveRateLimits(own: OwnRateLimits | undefined, defaults: RateLimits): RateLimits {
  if (!own) return defaults;
  return Object.freeze({
    concurrent: own.concurrent ?? defaults.concurrent,
    tokensPerMinute: own.tokensPerMinute ?? defaults.tokensPerMinute,
    weight: own.weight ?? defaults.weight,
  });
}
