import { type Kysely, type Selectable, sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { PeopleStore, ProfileChange, ProfileOutcome, ProfileRow, SshKey } from "../../accounts/store.ts";
import { asked } from "../core/asked.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import type { Database } from "../core/schema.ts";
import { isNameTaken, liveAccount } from "./account-rows.ts";
import { auditOwn } from "./audit-rows.ts";
import { endAccount, mayEnd } from "./end-account.ts";

const profileColumns = [
  "accountId",
  "email",
  "emailVerified",
  "displayName",
  "name",
  "firstName",
  "lastName",
  "country",
  "countryCode",
  "company",
  "website",
  "title",
  "useCase",
  "attribution",
  "marketingEmails",
  "isBusinessAccount",
  "isTeamAccount",
  "teamDisplayName",
  "isAdmin",
  "suspendReason",
  "createdAt",
] as const;

export function createPeopleStore(db: Kysely<Database>): PeopleStore {
  const profileRow = (account: AccountId) =>
    db
      .selectFrom("account")
      .select(profileColumns)
      .where("accountId", "=", account)
      .where("deletedAt", "is", null)
      .executeTakeFirst();

  return asked<PeopleStore>({
    async profile(account) {
      const row = await profileRow(account);
      return row && profileOf(row);
    },

    changeProfile: (actor, change) =>
      namesOf(() =>
        inTransaction(db, async (trx): Promise<ProfileOutcome> => {
          const before = await liveAccount(trx, actor.account)
            .select(["email", "displayName"])
            .forUpdate()
            .executeTakeFirst();
          if (!before) return "gone";
          const values = columnsOf(change);
          if (Object.keys(values).length === 0) return "changed";
          await trx
            .updateTable("account")
            .set(values)
            .$if(change.email !== undefined, (update) =>
              // The operator's own word is what "verified" rests on where no mail is sent.
              update.set({ emailVerified: sql<boolean>`is_admin or (email_verified and email = ${change.email})` }),
            )
            .where("accountId", "=", actor.account)
            .execute();
          const after = { email: before.email, displayName: before.displayName, ...change };
          if (after.email !== before.email || after.displayName !== before.displayName)
            await auditOwn(trx, actor, "account.change", { before: audited(before), after: audited(after) });
          await announce(trx, "account", actor.account);
          return "changed";
        }),
      ),

    nameTeam: (actor, name) =>
      namesOf(() =>
        inTransaction(db, async (trx): Promise<ProfileOutcome> => {
          const before = await liveAccount(trx, actor.account)
            .select(["isTeamAccount", "teamDisplayName"])
            .forUpdate()
            .executeTakeFirst();
          if (!before) return "gone";
          if (!before.isTeamAccount) return "no_team";
          await trx
            .updateTable("account")
            .set({ teamDisplayName: name })
            .where("accountId", "=", actor.account)
            .execute();
          await auditOwn(trx, actor, "account.name_team", { before: before.teamDisplayName, after: name });
          await announce(trx, "account", actor.account);
          return "changed";
        }),
      ),

    mayEnd: (account) => inTransaction(db, (trx) => mayEnd(trx, account)),
    end: (actor) => inTransaction(db, (trx) => endAccount(trx, actor)),

    async sshKeys(account) {
      const rows = await db
        .selectFrom("sshKey")
        .selectAll()
        .where("accountId", "=", account)
        .orderBy("createdAt")
        .orderBy("name")
        .execute();
      return rows.map(
        (row): SshKey => ({
          id: row.sshKeyId,
          name: row.name,
          key: row.publicKey,
          fingerprint: row.fingerprint,
          createdAtMs: row.createdAt.getTime(),
        }),
      );
    },

    async addSshKey(account, key) {
      const { numInsertedOrUpdatedRows = 0n } = await db
        .insertInto("sshKey")
        .values({
          sshKeyId: key.id,
          accountId: account,
          name: key.name,
          publicKey: key.key,
          fingerprint: key.fingerprint,
          createdAt: new Date(key.createdAtMs),
        })
        .onConflict((conflict) => conflict.constraint("ssh_key_name").doNothing())
        .executeTakeFirst();
      return numInsertedOrUpdatedRows > 0n;
    },

    async removeSshKey(account, id) {
      const { numDeletedRows } = await db
        .deleteFrom("sshKey")
        .where("accountId", "=", account)
        .where("sshKeyId", "=", id)
        .executeTakeFirst();
      return numDeletedRows > 0n;
    },
  });
}

async function namesOf(work: () => Promise<ProfileOutcome>): Promise<ProfileOutcome> {
  try {
    return await work();
  } catch (error) {
    const constraint = uniqueViolation(error);
    if (constraint === "account_email_key") return "email_taken";
    if (constraint === "account_team_name_key" || isNameTaken(constraint)) return "name_taken";
    throw error;
  }
}

const audited = ({ email, displayName }: { email: string; displayName: string }) => ({
  email,
  display_name: displayName,
});

/** The fields that are given, by their columns. */
function columnsOf(change: ProfileChange) {
  const columns = {
    email: change.email,
    displayName: change.displayName,
    name: change.name,
    firstName: change.firstName,
    lastName: change.lastName,
    country: change.country,
    countryCode: change.countryCode,
    company: change.company,
    website: change.website,
    title: change.title,
    useCase: change.useCase,
    attribution: change.attribution,
    marketingEmails: change.marketingEmails,
    isBusinessAccount: change.isBusinessAccount,
  };
  return Object.fromEntries(Object.entries(columns).filter(([, value]) => value !== undefined));
}

type StoredProfile = Pick<Selectable<Database["account"]>, (typeof profileColumns)[number]>;

function profileOf(row: StoredProfile): ProfileRow {
  return {
    account: row.accountId as AccountId,
    email: row.email,
    emailVerified: row.emailVerified,
    displayName: row.displayName,
    name: row.name,
    firstName: row.firstName,
    lastName: row.lastName,
    country: row.country,
    countryCode: row.countryCode,
    company: row.company,
    website: row.website,
    title: row.title,
    useCase: row.useCase,
    attribution: row.attribution,
    marketingEmails: row.marketingEmails,
    isBusinessAccount: row.isBusinessAccount,
    isTeamAccount: row.isTeamAccount,
    teamDisplayName: row.teamDisplayName,
    isAdmin: row.isAdmin,
    suspendReason: row.suspendReason,
    createdAtMs: row.createdAt.getTime(),
  };
}
