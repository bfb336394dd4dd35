// Which reasons should keep an account from spending, from what its books say. Pure.

import type { AccountMoney, BookedReason, BudgetRefusal, HeldReason } from "./payment-store.ts";

export interface StandingFacts {
  /** Nano-USD left of credits and credit line; null: no limit. */
  readonly left: bigint | null;
  /** Nano-USD per UTC month; null: none. */
  readonly monthlyLimit: bigint | null;
  /** Nano-USD charged to requests that were admitted this month, as the limit counts them. */
  readonly spentThisMonth: bigint;
  readonly overdueInvoices: number;
  /** The last charge was declined. */
  readonly cardFailed: boolean;
  readonly needsPaymentMethod: boolean;
  readonly hasPaymentMethod: boolean;
}

/** Facts of an account's books for `reasonsOf`. */
export const factsOf = (money: AccountMoney, overdueInvoices: number): StandingFacts => ({
  left: money.limit === null ? null : money.limit - money.spent,
  monthlyLimit: money.monthlyLimit,
  spentThisMonth: money.spentThisMonth,
  overdueInvoices,
  cardFailed: money.cardFailed,
  needsPaymentMethod: money.needsPaymentMethod,
  hasPaymentMethod: money.hasPaymentMethod,
});

export function reasonsOf(facts: StandingFacts): BookedReason[] {
  const reasons: BookedReason[] = [];
  if (facts.left !== null && facts.left <= 0n) reasons.push("balance");
  if (facts.monthlyLimit !== null && facts.spentThisMonth >= facts.monthlyLimit) reasons.push("limit-reached");
  if (facts.overdueInvoices > 0) reasons.push("overdue-invoices");
  if (facts.cardFailed) reasons.push("bad-cc");
  if (facts.needsPaymentMethod && !facts.hasPaymentMethod) reasons.push("payment-method");
  return reasons;
}

/**
 * Reason of an account whose last request got 402, for as long as the same request would get it again. Not a suspension:
 * a shorter request may fit.
 */
export function refusalReasonOf({ refusal, monthRefusal }: AccountMoney): BookedReason | null {
  if (isStillRefused(refusal)) return "balance";
  return isStillRefused(monthRefusal) ? "limit-reached" : null;
}

const isStillRefused = (refusal: BudgetRefusal | null) => refusal !== null && refusal.available < refusal.floor;

/** What to give and what to lift so that the account stands as its books say. */
export function standingChanges(
  wanted: readonly BookedReason[],
  held: readonly HeldReason[],
): { readonly suspend: readonly BookedReason[]; readonly lift: readonly BookedReason[] } {
  return {
    suspend: wanted.filter((reason) => held.every((one) => one.reason !== reason)),
    lift: held
      .filter((one) => one.isOurs && one.reason !== "admin" && !wanted.includes(one.reason as BookedReason))
      .map((one) => one.reason as BookedReason),
  };
}
