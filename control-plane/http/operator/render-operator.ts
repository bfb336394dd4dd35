import { type NanoUsd, toUsd } from "../../../proto/money.ts";
import { unixSeconds, unixSecondsOrNull } from "../../../proto/unix-seconds.ts";
import type { ApplicationRecord } from "../../accounts/applications.ts";
import type { AuditRecord } from "../../accounts/audit.ts";
import type { AccountDetail, AccountSummary } from "../../accounts/operator.ts";
import type { AdminAccount } from "./operator-schemas.ts";

const usdOrNull = (amount: NanoUsd | null) => (amount === null ? null : toUsd(amount));
export function renderSummary(one: AccountSummary) {
  return {
    uid: one.account,
    email: one.email,
    display_name: one.displayName,
    is_admin: one.isAdmin,
    is_team_account: one.isTeamAccount,
    suspended: one.suspendReason !== null,
    suspend_reason: one.suspendReason,
    funds_usd: usdOrNull(one.funds),
    spent_usd: toUsd(one.spent),
    created_at: unixSeconds(one.createdAtMs),
  };
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

export function renderApplication(one: ApplicationRecord) {
  return {
    id: one.id,
    uid: one.account,
    email: one.email,
    company: one.company,
    ceo: one.ceo,
    funding: one.funding,
    founded_on: one.foundedOn,
    website: one.website,
    deal: one.deal,
    created_at: unixSeconds(one.createdAtMs),
    status: one.status,
    decided_at: one.decision && unixSeconds(one.decision.atMs),
    decision_note: one.decision?.note ?? null,
  };
}

export function renderAudit({ id, atMs, ...entry }: AuditRecord) {
  return { id: String(id), at: new Date(atMs).toISOString().replace("Z", "+00:00"), ...entry };
}
