import { type NanoUsd, toUsd } from "../../proto/money.ts";
import type { AccountDetail, AccountSummary } from "../accounts/admin-accounts.ts";
import type { AuditRecord } from "../accounts/audit.ts";
import type { AdminAccount } from "./schemas/operator.ts";

const usdOrNull = (amount: NanoUsd | null) => (amount === null ? null : toUsd(amount));
const seconds = (ms: number) => Math.floor(ms / 1000);

export function renderSummary(one: AccountSummary) {
  return {
    uid: one.account,
    email: one.email,
    display_name: one.displayName,
    is_admin: one.isAdmin,
    suspended: one.suspendReason !== null,
    suspend_reason: one.suspendReason,
    funds_usd: usdOrNull(one.funds),
    spent_usd: toUsd(one.spent),
    created_at: seconds(one.createdAtMs),
  };
}

export function renderDetail(one: AccountDetail): AdminAccount {
  return {
    ...renderSummary(one),
    keys: one.keys,
    deployments: one.deployments,
    suspensions: one.suspensions.map(({ reason, sinceMs, by, note }) => ({
      reason,
      since: seconds(sinceMs),
      by,
      note,
    })),
  };
}

export function renderAudit({ id, atMs, ...entry }: AuditRecord) {
  return { id: String(id), at: new Date(atMs).toISOString().replace("Z", "+00:00"), ...entry };
}
