// Cost of one attempt at the provider of an external model. Pure.
import type { DeploymentId, LeaseId } from "../../proto/ids.ts";
import { ceilingOf, costOf, type NanoUsd, nano, type ProviderRates, type TokenCounts } from "../../proto/money.ts";
import { type BudgetScope, providerScopes } from "./scopes.ts";

/** Cost at a provider as a record states it. */
export interface ProviderCharge {
  readonly rates: ProviderRates;
  /** Leases that reserve it; empty without a limit. */
  readonly leaseIds: readonly LeaseId[];
  /** Budgets that count it. */
  readonly scopes: readonly [month: BudgetScope, day: BudgetScope];
  readonly amount: NanoUsd;
}

export function providerCharge(
  { rates, leaseIds }: Pick<ProviderCharge, "rates" | "leaseIds">,
  { deployId, admittedAtMs }: { readonly deployId: DeploymentId; readonly admittedAtMs: number },
  used: TokenCounts,
): ProviderCharge {
  return { rates, leaseIds, scopes: providerScopes(deployId, admittedAtMs), amount: providerCostOf(used, rates) };
}

/** 0 for an attempt without usage: the provider refused it, or it never arrived. */
export function providerCostOf(used: TokenCounts, rates: ProviderRates): NanoUsd {
  const hasRun = used.input > 0 || used.output > 0 || used.units !== undefined;
  return hasRun ? nano(costOf({ ...used, units: undefined }, rates) + rates.request) : nano(0n);
}

/** Upper bound of providerCostOf. */
export const providerCeilingOf = (inputTokens: number, outputTokens: number, rates: ProviderRates): NanoUsd =>
  nano(ceilingOf(inputTokens, outputTokens, rates) + rates.request);
