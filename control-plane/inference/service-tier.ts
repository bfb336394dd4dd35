// Service tier that serves a request. Pure.
import type { TokenRates } from "../../proto/money.ts";
import { tierRates } from "../../proto/price-rules.ts";
import type { ServiceTier } from "../../proto/service-tier.ts";
import type { Caller } from "../accounts/caller.ts";
import type { ServedModel } from "../catalog/served-model.ts";

/**
 * `asked`: `service_tier` of the request, of any API. Priority is for accounts that the operator allowed; others are served at the default
 * tier, as every unknown name is.
 */
export function servedTier(asked: unknown, { mayPrioritize }: Pick<Caller, "mayPrioritize">): ServiceTier {
  if (asked === "flex") return "flex";
  return asked === "priority" && mayPrioritize === true ? "priority" : "default";
}

/** Rates of a model at a tier, before discounts. Batches have a discount instead. */
export function ratesAt(tier: ServiceTier, { rates, tierPercents }: ServedModel): TokenRates {
  if (tierPercents === undefined || tier === "default" || tier === "batch") return rates;
  return tierRates(rates, tierPercents[tier]);
}

/** Discount id by which bills tell the tiers apart; a discount of the operator has its own. */
export const billedTier = (tier: ServiceTier): string | undefined => (tier === "default" ? undefined : tier);
