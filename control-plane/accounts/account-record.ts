import type { AccountId } from "../../proto/ids.ts";
import type { ProfileRow } from "./store.ts";

/** The account as its owner sees it. Unset fields are empty. */
export interface AccountRecord {
  readonly uid: AccountId;
  /** Null: an organisation, which nobody signs in to. */
  readonly email: string | null;
  readonly emailVerified: boolean;
  readonly accountSetup: boolean;
  readonly requireEmailVerified: boolean;
  readonly displayName: string;
  /** Login provider. */
  readonly provider: string;
  readonly picture: string | null;
  readonly isAdmin: boolean;
  readonly name: string;
  readonly firstName: string;
  readonly lastName: string;
  readonly country: string;
  readonly isBusinessAccount: boolean;
  readonly company: string;
  readonly website: string;
  readonly title: string;
  readonly isTeamAccount: boolean;
  readonly isTeamOwner: boolean;
  readonly teamRole: string | null;
  readonly teamDisplayName: string | null;
  readonly isTeamUpgradeEnabled: boolean;
  readonly rootUid: AccountId;
  readonly suspendReason: string | null;
}

export function accountRecord(row: ProfileRow): AccountRecord {
  return {
    uid: row.account,
    email: row.email === row.account ? null : row.email,
    emailVerified: row.emailVerified,
    accountSetup: true,
    requireEmailVerified: false,
    displayName: row.displayName,
    provider: "local",
    picture: null,
    isAdmin: row.isAdmin,
    name: row.name || row.displayName,
    firstName: row.firstName,
    lastName: row.lastName,
    country: row.country,
    isBusinessAccount: row.isBusinessAccount,
    company: row.company,
    website: row.website,
    title: row.title,
    // As the account itself, which somebody of the earlier kind signs in to. A member sees their own role.
    isTeamAccount: row.isTeamAccount,
    isTeamOwner: row.isTeamAccount,
    teamRole: row.isTeamAccount ? "owner" : null,
    teamDisplayName: row.teamDisplayName,
    isTeamUpgradeEnabled: true,
    rootUid: row.account,
    suspendReason: row.suspendReason,
  };
}
