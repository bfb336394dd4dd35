import type { AccountId } from "../../proto/ids.ts";
import type { AccountRow, AccountStore } from "./store.ts";

/** The account as its owner sees it. Fields the operator never asked for are empty. */
export interface AccountRecord {
  readonly uid: AccountId;
  readonly email: string;
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

/** Undefined when the account is gone. */
export async function readAccountRecord(store: AccountStore, account: AccountId): Promise<AccountRecord | undefined> {
  const row = await store.findAccount(account);
  return row && accountRecord(row);
}

function accountRecord(row: AccountRow): AccountRecord {
  return {
    uid: row.account,
    email: row.email,
    emailVerified: true,
    accountSetup: true,
    requireEmailVerified: false,
    displayName: row.displayName,
    provider: "local",
    picture: null,
    isAdmin: row.isAdmin,
    name: row.displayName,
    firstName: "",
    lastName: "",
    country: "",
    isBusinessAccount: false,
    company: "",
    website: "",
    title: "",
    isTeamAccount: false,
    isTeamOwner: false,
    teamRole: null,
    teamDisplayName: null,
    isTeamUpgradeEnabled: true,
    rootUid: row.account,
    suspendReason: row.suspendReason,
  };
}
