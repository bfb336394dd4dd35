// Which reasons should keep an account from spending, from what its books say. Pure.

/** Those that follow from the books; `admin` is the operator's own. */
export type BookedReason = "balance" | "limit-reached" | "overdue-invoices" | "bad-cc" | "payment-method";

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

export function reasonsOf(facts: StandingFacts): BookedReason[] {
  const reasons: BookedReason[] = [];
  if (facts.left !== null && facts.left <= 0n) reasons.push("balance");
  if (facts.monthlyLimit !== null && facts.spentThisMonth >= facts.monthlyLimit) reasons.push("limit-reached");
  if (facts.overdueInvoices > 0) reasons.push("overdue-invoices");
  if (facts.cardFailed) reasons.push("bad-cc");
  if (facts.needsPaymentMethod && !facts.hasPaymentMethod) reasons.push("payment-method");
  return reasons;
}

export interface HeldReason {
  readonly reason: string;
  /** Given by Stoker, not by a person: what a person decided is theirs to lift. */
  readonly isOurs: boolean;
}

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
