// Reasons why an account may not spend: the contract's values, and the text for users.

/** The gravest first: what only the operator lifts, what a payment lifts, what passes by itself. An account shows the first. */
export const suspendReasons = [
  "admin",
  "overdue-invoices",
  "bad-cc",
  "payment-method",
  "limit-reached",
  "balance",
] as const;
export type SuspendReason = (typeof suspendReasons)[number];

const sentences: Readonly<Record<string, string>> = {
  admin: "by the operator. Ask your operator for the reason.",
  "overdue-invoices": "because an invoice is overdue. Pay the open invoices.",
  "bad-cc": "because a charge was declined. Correct the payment method and pay again.",
  "payment-method": "because no payment method is on file. Add one.",
  "limit-reached": "because its monthly limit is reached. Raise the limit, or wait for the next month.",
  balance: "because its funds are used up. Add funds, or ask your operator for credit.",
};

/** For the account's owner: that, why, and what to do. */
export const suspendedSentence = (reason: string): string =>
  `Your account is suspended ${sentences[reason] ?? `(${reason}). Ask your operator.`}`;
