import type { SuspendReason } from "../../proto/suspend-reason.ts";

/** Why the account is suspended and what clears it. */
export const text: Readonly<Record<SuspendReason, { readonly why: string; readonly act: string }>> = {
  balance: { why: "The account has no funds, so requests are refused.", act: "Add funds" },
  "payment-method": {
    why: "The account is suspended: no payment method.",
    act: "Add a card in the billing portal",
  },
  "overdue-invoices": { why: "The account is suspended: an invoice is overdue.", act: "Pay the invoice" },
  "limit-reached": {
    why: "The account is suspended: the monthly limit is reached.",
    act: "Raise the monthly limit",
  },
  admin: { why: "The account was suspended by the operator.", act: "Contact the operator." },
  "bad-cc": {
    why: "The account is suspended: the last card payment failed.",
    act: "Change the card in the billing portal",
  },
};

/** Shown on every page before a limit stops requests. */
export const nearLimit = {
  why: (percent: number, limit: string) => `${percent} % of the monthly limit of ${limit} is spent.`,
  act: "Change the limit",
};
