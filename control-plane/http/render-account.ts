import type { AccountRecord } from "../accounts/account-record.ts";
import type { AccountBody } from "./schemas/account.ts";
import type { Checklist } from "./schemas/payment.ts";

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
