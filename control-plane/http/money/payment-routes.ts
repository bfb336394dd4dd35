import { type Static, Type } from "typebox";
import { type NanoUsd, nano, toUsd } from "../../../proto/money.ts";
import { suspendReasons } from "../../../proto/suspend-reason.ts";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import type { Caller } from "../../accounts/caller.ts";
import { accountGone } from "../../accounts/errors.ts";
import { holds } from "../../accounts/permissions.ts";
import type { ChecklistReport, Checklists } from "../../billing/checklist.ts";
import type { InvoiceView } from "../../billing/invoice-queries.ts";
import { monthName } from "../../billing/period.ts";
import type { KeyUsage, UsageMonth, UsageReport } from "../../billing/usage-queries.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { apiKeyNotFound } from "../errors/errors.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import type { MoneyFeatures } from "./features.ts";

export const SuspendReasonOrNull = nullable.string({ enum: [...suspendReasons, null] });

export const Checklist = Type.Object({
  payments_balance: Type.Number({ description: "USD; negative: funds ready to spend" }),
  recent: Type.Number({ description: "USD used since the most recent invoice" }),
  limit: nullable.number({ description: "USD per month; null: none" }),
  limit_spend: nullable.number({ description: "USD counted against the limit this month; null: no limit" }),
  suspend_reason: SuspendReasonOrNull,
  email: Type.Boolean(),
  billing_address: Type.Boolean(),
  payment_method: Type.Boolean(),
  suspended: Type.Boolean(),
  overdue_invoices: Type.Number(),
  last_checked: Type.Integer({ description: "Unix seconds; 0: never" }),
  topup: Type.Boolean(),
  topup_amount: Type.Integer({ description: "Cents" }),
  topup_threshold: Type.Integer({ description: "Cents" }),
  topup_failed: Type.Boolean(),
});
export type Checklist = Static<typeof Checklist>;

const Interval = Type.Object({ fr: Type.Integer({ description: "Unix ms, inclusive" }), to: Type.Integer() });

export const UsageBody = Type.Object({
  initial_month: Type.String(),
  months: Type.Array(
    Type.Object({
      period: Type.String({ description: "YYYY.MM" }),
      interval: Interval,
      invoice_id: Type.String({ description: "NOT_FINAL while the month is open" }),
      total_cost: Type.Number({ description: "Cents" }),
      items: Type.Array(
        Type.Object({
          model: Type.Object({
            provider: Type.String(),
            model_name: Type.String(),
            task: Type.String(),
            plan_id: Type.String(),
            private: Type.Boolean(),
          }),
          units: Type.Number(),
          rate: Type.Number({ description: "Cents per unit" }),
          cost: Type.Number({ description: "Cents" }),
          pricing_type: Type.String(),
          interval: Interval,
          discount: Type.Object({ name: Type.String(), description: Type.String() }),
        }),
      ),
    }),
  ),
});
export type UsageBody = Static<typeof UsageBody>;

export const UsageByKeyBody = Type.Object({
  tokens: Type.Array(Type.Intersect([Type.Object({ token_id: Type.String(), name: Type.String() }), UsageBody])),
});
export type UsageByKeyBody = Static<typeof UsageByKeyBody>;

const Period = Type.Object({
  from: Type.Optional(
    Type.String({
      maxLength: 40,
      default: "current",
      description: "YYYY.MM, current, current-N (the contract writes current(-N)) or unix seconds",
    }),
  ),
  to: Type.Optional(Type.String({ maxLength: 40, description: "Same format; default: only the month of `from`" })),
});

export const InvoiceQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 50, default: 10 })),
  starting_after: Type.Optional(
    Type.String({ maxLength: 64, description: "Id of the last invoice of the previous page" }),
  ),
  invoice_type: Type.Optional(Type.String({ maxLength: 64, description: "The only type is `usage`" })),
});

export const InvoiceBody = Type.Object({
  id: Type.String(),
  status: Type.String({ enum: ["open", "paid", "overdue"] }),
  total: Type.Number({ description: "Cents" }),
  amount_due: Type.Number({ description: "Cents" }),
  created: Type.Integer({ description: "Unix seconds" }),
  due_date: Type.Integer({ description: "Unix seconds" }),
  period: Type.String({ description: "YYYY.MM" }),
  invoice_type: Type.String(),
  hosted_invoice_url: Type.String({ description: "Empty for an operator who acts as the account" }),
  invoice_pdf: nullable.string(),
});

export const InvoiceList = Type.Object({
  invoices: Type.Array(InvoiceBody),
  has_more: Type.Boolean(),
  next_cursor: nullable.string({ description: "For `starting_after`" }),
});
export type InvoiceList = Static<typeof InvoiceList>;

const Rent = Type.Object({
  id_to_duration: Type.Record(Type.String(), Type.Number({ description: "Seconds" })),
});

export function addPaymentRoutes(endpoints: Endpoints, deps: MoneyFeatures): void {
  const own = endpoints.with({ tag: "billing", access: "key" });
  const { accounts, usage } = deps;

  own.get("/payment/checklist", {
    right: "readMoney",
    isOpenToOperators: true,
    summary: "Get funds, recent usage and suspension",
    query: Type.Object({
      compute_owed: Type.Optional(
        Type.Boolean({ default: false, description: "Compute the account's good standing first" }),
      ),
    }),
    answer: Checklist,
    refusals: [404],
    handler: ({ caller, query }) =>
      readChecklist(deps.checklists, caller, query.compute_owed === true && holds("changeMoney", caller)),
  });

  own.get("/payment/usage", {
    right: "readUsage",
    isOpenToOperators: true,
    summary: "Get usage of the account by month and model",
    query: Period,
    answer: UsageBody,
    handler: async ({ caller, query }) =>
      renderUsage(await usage.usage({ account: caller.account }, query.from ?? "current", query.to)),
  });

  own.get("/payment/usage/tokens", {
    right: "readUsage",
    isOpenToOperators: true,
    summary: "Get usage of each API key",
    query: Period,
    answer: UsageByKeyBody,
    handler: async ({ caller, query }) =>
      renderUsageByKey(await usage.byKey(caller.account, query.from ?? "current", query.to)),
  });

  own.get("/payment/usage/rent", {
    right: "readUsage",
    isOpenToOperators: true,
    summary: "Get the billed time of each dedicated deployment",
    query: Type.Object({
      from: Type.Integer({ minimum: 0, maximum: 100_000_000_000, description: "Unix seconds" }),
      to: Type.Optional(
        Type.Integer({ minimum: 0, maximum: 100_000_000_000, description: "Unix seconds; default: now" }),
      ),
    }),
    answer: Rent,
    async handler({ caller, query }) {
      return { id_to_duration: Object.fromEntries(await usage.rent(caller.account, query.from, query.to)) };
    },
  });

  for (const path of ["/payment/usage/:api_token", "/payment/usage/id/:api_token"] as const) {
    own.get(path, {
      right: "readUsage",
      summary: "Get usage of one API key, by the key or its token_id",
      query: Period,
      answer: UsageBody,
      refusals: [404],
      async handler({ caller, query, params }) {
        const key = await accounts.findOwnKey(caller.account, params.api_token);
        if (key === undefined) throw apiKeyNotFound();
        return renderUsage(await usage.usage({ account: caller.account, key }, query.from ?? "current", query.to));
      },
    });
  }
}

// Money at the edge: checklists in USD; usage, invoices and top-ups in cents.
/** `mustUpdate`: computes the account's good standing first. Throws accountGone. */
export async function readChecklist(checklists: Checklists, caller: Caller, mustUpdate = false): Promise<Checklist> {
  const report = await checklists.read(caller.account, mustUpdate);
  if (!report) throw accountGone();
  return renderChecklist(report);
}

function renderChecklist(report: ChecklistReport): Checklist {
  return {
    payments_balance: toUsd(report.paymentsBalance),
    recent: toUsd(report.recent),
    limit: report.limit === null ? null : toUsd(report.limit),
    limit_spend: report.limitSpent === null ? null : toUsd(report.limitSpent),
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

function renderUsage(report: UsageReport): UsageBody {
  return { initial_month: report.initialMonth, months: report.months.map(renderMonth) };
}

function renderUsageByKey(keys: readonly KeyUsage[]): UsageByKeyBody {
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
