import { type NanoUsd, toUsd } from "../../../proto/money.ts";
import { unixSeconds, unixSecondsOrNull } from "../../../proto/unix-seconds.ts";
import type { AuditRecord } from "../../accounts/audit.ts";
import type { AccountDetail, AccountSummary } from "../../accounts/operator.ts";
import { wireRecord } from "../core/wire-record.ts";
import { AccountListed, type AdminAccount } from "./operator-schemas.ts";

const usdOrNull = (amount: NanoUsd | null) => (amount === null ? null : toUsd(amount));
export function renderSummary(one: AccountSummary) {
  return wireRecord(AccountListed, one, {
    uid: one.account,
    suspended: one.suspendReason !== null,
    suspend_reason: one.suspendReason,
    funds_usd: usdOrNull(one.funds),
    spent_usd: toUsd(one.spent),
    created_at: unixSeconds(one.createdAtMs),
  });
}

export function renderDetail(one: AccountDetail): AdminAccount {
  return {
    ...renderSummary(one),
    deleted_at: unixSecondsOrNull(one.deletedAtMs),
    credited_usd: usdOrNull(one.credited),
    keys: one.keys,
    deployments: one.deployments,
    suspensions: one.suspensions.map(({ reason, sinceMs, by, note }) => ({
      reason,
      since: unixSeconds(sinceMs),
      by,
      note,
    })),
  };
}

export function renderAudit({ id, atMs, actorEmail, accountEmail, subjectName, ...entry }: AuditRecord) {
  return {
    id: String(id),
    at: new Date(atMs).toISOString().replace("Z", "+00:00"),
    ...entry,
    subject_name: subjectName,
    actor_email: actorEmail,
    account_email: accountEmail,
  };
}
