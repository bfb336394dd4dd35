// Text for suspension reasons and status signs.

import type { SuspendReason } from "../proto/suspend-reason.ts";

export interface Suspension {
  readonly why: string;
  readonly act: string;
  /** Page of that action, if it is in the console. */
  readonly page?: string;
}

const billing = "/console/billing";

const suspensions: Readonly<Record<SuspendReason, Suspension>> = {
  balance: { why: "The account is suspended: no funds left.", act: "Add funds", page: billing },
  "payment-method": {
    why: "The account is suspended: no payment method.",
    act: "Add a card in the billing portal",
    page: billing,
  },
  "overdue-invoices": {
    why: "The account is suspended: an invoice is overdue.",
    act: "Pay the invoice",
    page: billing,
  },
  "limit-reached": {
    why: "The account is suspended: the monthly limit is reached.",
    act: "Raise the monthly limit",
    page: billing,
  },
  admin: {
    why: "The account was suspended by the operator.",
    act: "Contact the operator.",
  },
  "bad-cc": {
    why: "The account is suspended: the last card payment failed.",
    act: "Change the card in the billing portal",
    page: billing,
  },
};

export const suspensionOf = (reason: SuspendReason): Suspension => suspensions[reason];

/** Sign of a status, so that colour is not needed. */
export function signOf(status: string): string {
  if (["deployed", "ready", "running", "paid", "delivered", "approved", "done", "completed"].includes(status))
    return "●";
  if (["failed", "overdue", "exhausted", "unreachable", "revoked", "rejected", "expired"].includes(status)) return "✕";
  if (["stopped", "deleted", "inactive", "withdrawn", "cancelled"].includes(status)) return "○";
  return "◐";
}
