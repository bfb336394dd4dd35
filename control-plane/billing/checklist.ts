import type { AccountId } from "../../proto/ids.ts";
import { type NanoUsd, nano } from "../../proto/money.ts";
import { type Clock, systemClock } from "./clock.ts";
import { dueOf, stateOf } from "./invoices.ts";
import { monthOf, monthStartMs } from "./period.ts";
import { factsOf, reasonsOf, refusalReasonOf } from "./status-reasons.ts";
import type { AccountMoney, BillingStore, InvoiceStore } from "./store.ts";

export interface ChecklistReport {
  /** Negative: ready to spend; positive: owed. */
  readonly paymentsBalance: NanoUsd;
  /** Used since the most recent invoice. Remaining funds = -paymentsBalance - recent. */
  readonly recent: NanoUsd;
  /** Per month; null: none. */
  readonly limit: NanoUsd | null;
  /** Spent this month, as counted against the limit; null: no limit. */
  readonly limitSpent: NanoUsd | null;
  readonly suspendReason: string | null;
  readonly hasEmail: boolean;
  readonly hasBillingAddress: boolean;
  readonly hasPaymentMethod: boolean;
  readonly overdueInvoices: number;
  /** Unix ms; null: never. */
  readonly lastCheckedMs: number | null;
  readonly topup: {
    readonly isOn: boolean;
    readonly amount: NanoUsd;
    readonly threshold: NanoUsd;
    readonly hasFailed: boolean;
  };
}

export interface Checklists {
  /** Undefined when there is no such account. `mustUpdate`: updates its status first. */
  read(account: AccountId, mustUpdate?: boolean): Promise<ChecklistReport | undefined>;
}

export function createChecklists(deps: {
  readonly store: BillingStore & Pick<InvoiceStore, "owed">;
  /** Sets and lifts suspensions according to the books. */
  readonly updateStatus: (account: AccountId) => Promise<void>;
  /** Nano-USD: an invoice with less due counts as paid. */
  readonly minDue: bigint;
  readonly clock?: Clock;
}): Checklists {
  const clock = deps.clock ?? systemClock;
  return {
    async read(account, mustUpdate = false) {
      if (mustUpdate) await deps.updateStatus(account);
      const nowMs = clock.unixMs();
      const money = await deps.store.accountMoney(account, monthStartMs(monthOf(nowMs)));
      if (!money) return undefined;
      const owed = await deps.store.owed(account);
      const due = dueOf(owed, deps.minDue);
      const overdue = owed.open.filter((invoice, i) => stateOf(invoice, due[i] ?? 0n, nowMs).status === "overdue");
      return checklistOf(money, overdue.length);
    },
  };
}

function checklistOf(money: AccountMoney, overdueInvoices: number): ChecklistReport {
  return {
    paymentsBalance: nano(money.invoiced - ((money.limit ?? 0n) - money.creditLine)),
    recent: nano(money.spent - money.invoiced),
    limit: money.monthlyLimit === null ? null : nano(money.monthlyLimit),
    limitSpent: money.monthlyLimit === null ? null : nano(money.spentThisMonth),
    // Requests are refused as soon as the balance requires it; the suspension row is written by the next update.
    suspendReason: money.suspendReason ?? reasonsOf(factsOf(money, overdueInvoices))[0] ?? refusalReasonOf(money),
    hasEmail: money.hasEmail,
    hasBillingAddress: money.hasBillingAddress,
    hasPaymentMethod: money.hasPaymentMethod,
    overdueInvoices,
    lastCheckedMs: money.checkedAtMs,
    topup: {
      isOn: money.topup.isOn,
      amount: nano(money.topup.amount),
      threshold: nano(money.topup.threshold),
      hasFailed: money.topup.hasFailed,
    },
  };
}
