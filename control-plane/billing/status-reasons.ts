// Reasons that keep an account from spending, from its books. Pure.

import type { AccountMoney, BookedReason, BudgetRefusal, HeldReason } from "./payment-store.ts";

export interface StatusFacts {
  /** Nano-USD left of credits and credit line; null: no limit. */
  readonly left: bigint | null;
  /** Nano-USD per UTC month; null: none. */
  readonly monthlyLimit: bigint | null;
  /** Nano-USD charged to requests that were admitted this month. */
  readonly spentThisMonth: bigint;
  readonly overdueInvoices: number;
  /** The last charge was declined. */
  readonly cardFailed: boolean;
  readonly needsPaymentMethod: boolean;
  readonly hasPaymentMethod: boolean;
}

/** Facts of an account's books for `reasonsOf`. */
export const factsOf = (money: AccountMoney, overdueInvoices: number): StatusFacts => ({
  left: money.limit === null ? null : money.limit - money.spent,
  monthlyLimit: money.monthlyLimit,
  spentThisMonth: money.spentThisMonth,
  overdueInvoices,
  cardFailed: money.cardFailed,
  needsPaymentMethod: money.needsPaymentMethod,
  hasPaymentMethod: money.hasPaymentMethod,
});

export function reasonsOf(facts: StatusFacts): BookedReason[] {
  const reasons: BookedReason[] = [];
  if (facts.left !== null && facts.left <= 0n) reasons.push("balance");
  if (facts.monthlyLimit !== null && facts.spentThisMonth >= facts.monthlyLimit) reasons.push("limit-reached");
  if (facts.overdueInvoices > 0) reasons.push("overdue-invoices");
  if (facts.cardFailed) reasons.push("bad-cc");
  if (facts.needsPaymentMethod && !facts.hasPaymentMethod) reasons.push("payment-method");
  return reasons;
}

/**
 * Reason of an account whose last request was refused with 402, as long as the same request would be refused again. Not a
 * suspension: a shorter request may fit.
 */
export function refusalReasonOf({ refusal, monthRefusal }: AccountMoney): BookedReason | null {
  if (isStillRefused(refusal)) return "balance";
  return isStillRefused(monthRefusal) ? "limit-reached" : null;
}

const isStillRefused = (refusal: BudgetRefusal | null) => refusal !== null && refusal.available < refusal.floor;

/** Reasons to set and to lift so that the account's status follows its books. */
export function statusChanges(
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
