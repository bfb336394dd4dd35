// Money at the edge: checklists in USD; usage, invoices and top-ups in cents.

import { type NanoUsd, nano, toUsd } from "../../../proto/money.ts";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import type { Caller } from "../../accounts/caller.ts";
import { accountGone } from "../../accounts/errors.ts";
import type { ChecklistReport, Checklists } from "../../billing/checklist.ts";
import type { InvoiceView } from "../../billing/invoice-queries.ts";
import { monthName } from "../../billing/period.ts";
import type { KeyUsage, UsageMonth, UsageReport } from "../../billing/usage-queries.ts";
import type { Checklist, InvoiceList, UsageBody, UsageByKeyBody } from "./payment-schemas.ts";

/** `isJudgedFirst`: the account's good standing is computed before. Throws accountGone. */
export async function readChecklist(checklists: Checklists, caller: Caller, isJudgedFirst = false): Promise<Checklist> {
  const report = await checklists.read(caller.account, isJudgedFirst);
  if (!report) throw accountGone();
  return renderChecklist(report);
}

function renderChecklist(report: ChecklistReport): Checklist {
  return {
    payments_balance: toUsd(report.paymentsBalance),
    recent: toUsd(report.recent),
    limit: report.limit === null ? null : toUsd(report.limit),
    suspend_reason: report.suspendReason,
    email: report.hasEmail,
    billing_address: report.hasBillingAddress,
    payment_method: report.hasPaymentMethod,
    suspended: report.suspendReason !== null,
    overdue_invoices: report.overdueInvoices,
    last_checked: Math.floor((report.lastCheckedMs ?? 0) / 1000),
    topup: report.topup.isOn,
    topup_amount: Math.round(cents(report.topup.amount)),
    topup_threshold: Math.round(cents(report.topup.threshold)),
    topup_failed: report.topup.hasFailed,
  };
}

export function renderUsage(report: UsageReport): UsageBody {
  return { initial_month: report.initialMonth, months: report.months.map(renderMonth) };
}

export function renderUsageByKey(keys: readonly KeyUsage[]): UsageByKeyBody {
  return { tokens: keys.map((one) => ({ token_id: one.key, name: one.name, ...renderUsage(one) })) };
}

function renderMonth(month: UsageMonth): UsageBody["months"][number] {
  const interval = { fr: month.fromMs, to: month.toMs };
  return {
    period: month.period,
    interval,
    invoice_id: month.invoiceId,
    total_cost: cents(month.totalCost),
    items: month.items.map(({ model, pricingType, units, cost, discount }) => ({
      model: { provider: "stoker", model_name: model.name, task: model.task, plan_id: "", private: model.isPrivate },
      units,
      rate: units === 0 ? 0 : cents(cost) / units,
      cost: cents(cost),
      pricing_type: pricingType,
      interval,
      discount: { name: discount?.name ?? "", description: discount?.text ?? "" },
    })),
  };
}

/** `origin`: scheme and host of the page. */
export function renderInvoice(invoice: InvoiceView, origin: string): InvoiceList["invoices"][number] {
  return {
    id: invoice.id,
    status: invoice.status,
    total: cents(nano(invoice.total)),
    amount_due: cents(nano(invoice.amountDue)),
    created: unixSeconds(invoice.createdAtMs),
    due_date: unixSeconds(invoice.dueAtMs),
    period: monthName(invoice.month),
    invoice_type: "usage",
    hosted_invoice_url: origin + invoice.pagePath,
    invoice_pdf: null,
  };
}

// Computed from the integer, so that rounding errors do not add up.
export const cents = (amount: NanoUsd) => Number(amount) / 1e7;
