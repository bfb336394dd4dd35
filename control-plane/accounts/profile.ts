import type { AccountId } from "../../proto/ids.ts";
import { type AccountRecord, accountRecord } from "./account-record.ts";
import { accountGone, accountNameTaken, badDisplayName, notInTeam } from "./errors.ts";
import type { GuessLimits } from "./guess-limits.ts";
import type { Actor, PeopleStore, ProfileChange, ProfileOutcome } from "./store.ts";

export interface Profiles {
  /** Throws accountGone, as all of these do. */
  read(account: AccountId): Promise<AccountRecord>;
  /** Addresses that somebody other than the account's owner vouches for. */
  emails(account: AccountId): Promise<readonly string[]>;
  /** Throws accountNameTaken, badDisplayName, TooManyAttempts. */
  change(actor: Actor, change: ProfileChange): Promise<AccountRecord>;
  /** Throws notInTeam, accountNameTaken, badDisplayName. */
  nameTeam(actor: Actor, name: string): Promise<AccountRecord>;
}

const displayNamePattern = /^[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*$/;

/** Throws badDisplayName. */
export function checkDisplayName(name: string): void {
  if (name.length > 39 || !displayNamePattern.test(name)) throw badDisplayName();
}

export function createProfiles(store: PeopleStore, limits: Pick<GuessLimits, "address">): Profiles {
  async function read(account: AccountId): Promise<AccountRecord> {
    const row = await store.profile(account);
    if (!row) throw accountGone();
    return accountRecord(row);
  }

  async function after(account: AccountId, outcome: ProfileOutcome): Promise<AccountRecord> {
    if (outcome === "changed") return read(account);
    throw refusalOf(outcome);
  }

  return {
    read,
    async emails(account) {
      const record = await read(account);
      return record.emailVerified ? [record.email] : [];
    },
    async change(actor, change) {
      if (change.displayName !== undefined) checkDisplayName(change.displayName);
      // The outcome shows whether an account has this address, as that of a sign-up does.
      if (change.email !== undefined) await limits.address(actor.ip);
      return after(actor.account, await store.changeProfile(actor, change));
    },
    async nameTeam(actor, name) {
      checkDisplayName(name);
      return after(actor.account, await store.nameTeam(actor, name));
    },
  };
}

function refusalOf(outcome: Exclude<ProfileOutcome, "changed">): Error {
  switch (outcome) {
    case "gone":
      return accountGone();
    case "no_team":
      return notInTeam();
    case "email_taken":
      return accountNameTaken("An account with this e-mail address exists. Use another address.", {
        param: "email",
      });
    case "name_taken":
      return accountNameTaken("This display name is taken. Choose another one.", { param: "display_name" });
  }
}
