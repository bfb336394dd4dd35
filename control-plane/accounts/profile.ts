import type { AccountId } from "../../proto/ids.ts";
import type { Actor } from "../act.ts";
import type { AccountMails } from "./account-mails.ts";
import { type AccountRecord, accountRecord } from "./account-record.ts";
import type { EnforcedSso } from "./enforced-sso.ts";
import { accountGone, accountNameTaken, badDisplayName, notInTeam } from "./errors.ts";
import type { GuessLimits } from "./guess-limits.ts";
import type { ProfileChange, ProfileOutcome, ProfileStore } from "./store.ts";

const displayNamePattern = /^[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*$/;

/** Throws badDisplayName. */
export function checkDisplayName(name: string): void {
  if (name.length > 39 || !displayNamePattern.test(name)) throw badDisplayName();
}

export function createProfiles(
  store: ProfileStore,
  limits: Pick<GuessLimits, "address">,
  mails: Pick<AccountMails, "offerVerification" | "addressNotice">,
  sso: EnforcedSso,
) {
  async function read(account: AccountId): Promise<AccountRecord> {
    const row = await store.profile(account);
    if (!row) throw accountGone();
    return accountRecord(row);
  }

  /** Nobody moves into or out of a domain whose provider signs its people in, except operators. */
  async function checkMove(account: AccountId, email: string): Promise<void> {
    const { email: present, isAdmin } = await read(account);
    if (isAdmin || present === null || present === email) return;
    await sso.check(email);
    await sso.check(present);
  }

  async function after(account: AccountId, outcome: ProfileOutcome): Promise<AccountRecord> {
    if (outcome === "changed") return read(account);
    throw refusalOf(outcome);
  }

  return {
    /** Throws accountGone, as all of these do. */
    read,
    /** The address, if it is verified. */
    async emails(account: AccountId): Promise<readonly string[]> {
      const record = await read(account);
      return record.emailVerified && record.email !== null ? [record.email] : [];
    },
    /** Throws accountNameTaken, badDisplayName, TooManyAttempts, ssoRequired. */
    async change(actor: Actor, change: ProfileChange): Promise<AccountRecord> {
      if (change.displayName !== undefined) checkDisplayName(change.displayName);
      // The outcome shows whether an account has this address, as that of a sign-up does.
      if (change.email !== undefined) {
        await limits.address(actor.ip);
        await checkMove(actor.account, change.email);
      }
      const outcome = await store.changeProfile(actor, change, mails.addressNotice(actor));
      const record = await after(actor.account, outcome);
      if (change.email !== undefined && !record.emailVerified) await mails.offerVerification(actor.account);
      return record;
    },
    /** Throws notInTeam, accountNameTaken, badDisplayName. */
    async nameTeam(actor: Actor, name: string): Promise<AccountRecord> {
      checkDisplayName(name);
      return after(actor.account, await store.nameTeam(actor, name));
    },
  };
}

export type Profiles = ReturnType<typeof createProfiles>;

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
