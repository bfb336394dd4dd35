// What the server's codes mean to the person who meets them, and what clears them.

import type { SuspendReason } from "../proto/suspend-reason.ts";

export interface Suspension {
  readonly why: string;
  /** What to do about it. */
  readonly act: string;
  /** Where that is done; undefined: not in the console. */
  readonly page?: string;
}

const billing = "/console/billing";

const suspensions: Readonly<Record<SuspendReason, Suspension>> = {
  balance: { why: "The account has no funds left to spend, so it is suspended.", act: "Add funds", page: billing },
  "payment-method": {
    why: "The account is suspended: it has no means of payment.",
    act: "Add a card in the billing portal",
    page: billing,
  },
  "overdue-invoices": {
    why: "The account is suspended: an invoice is overdue.",
    act: "Pay the invoice",
    page: billing,
  },
  "limit-reached": {
    why: "The account is suspended: this month's use has reached the limit you set.",
    act: "Raise the monthly limit",
    page: billing,
  },
  admin: {
    why: "The account was suspended by the operator of this server.",
    act: "Ask them why; nothing in the console lifts it.",
  },
  "bad-cc": {
    why: "The account is suspended: the last charge to its card failed.",
    act: "Change the card in the billing portal",
    page: billing,
  },
};

export const suspensionInWords = (reason: SuspendReason): Suspension => suspensions[reason];

/** A sign beside each colour: pages are read without it. */
export function signOf(status: string): string {
  if (["deployed", "ready", "running", "paid", "delivered", "approved", "done", "completed"].includes(status))
    return "●";
  if (["failed", "overdue", "exhausted", "unreachable", "revoked", "rejected", "expired"].includes(status)) return "✕";
  if (["stopped", "deleted", "inactive", "withdrawn", "cancelled"].includes(status)) return "○";
  return "◐";
}
