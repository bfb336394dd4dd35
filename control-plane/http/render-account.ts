import { type NanoUsd, toUsd } from "../../proto/money.ts";
import type { AccountRecord } from "../accounts/account-record.ts";
import type { FundsReport, UsageMonth, UsageReport } from "../billing/usage-queries.ts";
import type { AccountBody, Checklist, UsageBody } from "./schemas/account.ts";

export function renderAccount(record: AccountRecord, checklist: Checklist | null): AccountBody {
  return {
    uid: record.uid,
    email: record.email,
    email_verified: record.emailVerified,
    account_setup: record.accountSetup,
    require_email_verified: record.requireEmailVerified,
    display_name: record.displayName,
    provider: record.provider,
    picture: record.picture,
    is_admin: record.isAdmin,
    name: record.name,
    first_name: record.firstName,
    last_name: record.lastName,
    country: record.country,
    is_business_account: record.isBusinessAccount,
    company: record.company,
    website: record.website,
    title: record.title,
    is_team_account: record.isTeamAccount,
    is_team_owner: record.isTeamOwner,
    team_role: record.teamRole,
    team_display_name: record.teamDisplayName,
    is_team_upgrade_enabled: record.isTeamUpgradeEnabled,
    root_uid: record.rootUid,
    checklist,
  };
}

/** Amounts in USD. What nobody asked the account for yet counts as not given. */
export function renderChecklist(funds: FundsReport, hasEmail: boolean): Checklist {
  return {
    payments_balance: toUsd(funds.paymentsBalance),
    recent: toUsd(funds.recent),
    limit: null,
    suspend_reason: funds.suspendReason,
    email: hasEmail,
    billing_address: false,
    payment_method: false,
    suspended: funds.suspendReason !== null,
    overdue_invoices: 0,
    last_checked: 0,
    topup: false,
    topup_amount: 0,
    topup_threshold: 0,
    topup_failed: false,
  };
}

/** Costs and rates in cents. */
export function renderUsage(report: UsageReport): UsageBody {
  return { initial_month: report.initialMonth, months: report.months.map(renderMonth) };
}

function renderMonth(month: UsageMonth): UsageBody["months"][number] {
  const interval = { fr: month.fromMs, to: month.toMs };
  return {
    period: month.period,
    interval,
    invoice_id: month.invoiceId,
    total_cost: cents(month.totalCost),
    items: month.items.map(({ model, units, cost }) => ({
      model: { provider: "stoker", model_name: model.name, task: model.task, plan_id: "", private: model.isPrivate },
      units,
      rate: units === 0 ? 0 : cents(cost) / units,
      cost: cents(cost),
      pricing_type: "tokens",
      interval,
      discount: { name: "", description: "" },
    })),
  };
}

// From the integer, so that 70 nano-USD are 0.000007 cents and not a sum of roundings.
const cents = (amount: NanoUsd) => Number(amount) / 1e7;
