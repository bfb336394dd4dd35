import type { AccountId } from "../../proto/ids.ts";
import { type AccountRecord, accountRecord } from "./account-record.ts";
import { AccountGone, AccountNameTaken, BadDisplayName, NotInTeam } from "./errors.ts";
import type { Actor, PeopleStore, ProfileChange, ProfileOutcome } from "./store.ts";

export interface Profiles {
  /** Throws AccountGone, as all of these do. */
  read(account: AccountId): Promise<AccountRecord>;
  /** Addresses that somebody other than the account's owner vouches for. */
  emails(account: AccountId): Promise<readonly string[]>;
  /** Throws AccountNameTaken, BadDisplayName. */
  change(actor: Actor, change: ProfileChange): Promise<AccountRecord>;
  /** Throws NotInTeam, AccountNameTaken, BadDisplayName. */
  nameTeam(actor: Actor, name: string): Promise<AccountRecord>;
}

const displayNamePattern = /^[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*$/;

/** Throws BadDisplayName. */
export function checkDisplayName(name: string): void {
  if (name.length > 39 || !displayNamePattern.test(name)) throw new BadDisplayName();
}

export function createProfiles(store: PeopleStore): Profiles {
  async function read(account: AccountId): Promise<AccountRecord> {
    const row = await store.profile(account);
    if (!row) throw new AccountGone();
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
      return new AccountGone();
    case "no_team":
      return new NotInTeam();
    case "email_taken":
      return new AccountNameTaken("An account with this e-mail address exists. Use another address.", {
        param: "email",
      });
    case "name_taken":
      return new AccountNameTaken("This display name is taken. Choose another one.", { param: "display_name" });
  }
}
