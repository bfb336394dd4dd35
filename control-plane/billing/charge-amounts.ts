// What to charge an account now, from its books. Pure: asked again under the lock, where a charge begins.
import { dueOf } from "./invoices.ts";
import type { AccountMoney, Books, Unmade } from "./payment-store.ts";
import { nanoPerCent } from "./payments.ts";

/** After a failed one nothing is charged until the customer or the operator did something about it. */
export function wantsTopup({ topup, limit, spent, creditLine }: AccountMoney): boolean {
  if (!topup.isOn || topup.hasFailed || topup.amount <= 0n || limit === null) return false;
  return limit - creditLine - spent < topup.threshold;
}

/** Without a card that works, an invoice waits for its day. */
export const canCharge = ({ hasPaymentMethod, cardFailed }: AccountMoney): boolean => hasPaymentMethod && !cardFailed;

/** Whole cents, as providers take; what is less than one is carried over to the next invoice. 0: nothing to charge. */
export function invoiceAmount(
  { money, owed }: Pick<Books, "money" | "owed">,
  invoiceId: string,
  leastDue: bigint,
): bigint {
  if (!canCharge(money)) return 0n;
  const due = dueOf(owed, leastDue)[owed.open.findIndex((invoice) => invoice.id === invoiceId)] ?? 0n;
  return due - (due % nanoPerCent);
}

const hourMs = 3_600_000;

/** After an order that came to nothing the next one waits an hour, after each further one twice as long, at most a day. */
export const mustWait = ({ count, agoMs }: Unmade): boolean =>
  count > 0 && agoMs < Math.min(24, 2 ** Math.min(count - 1, 5)) * hourMs;
