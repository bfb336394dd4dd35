import { type Kysely, type Selectable, sql } from "kysely";
import type { AccountId } from "../../proto/ids.ts";
import type { Actor, PeopleStore, ProfileChange, ProfileOutcome, ProfileRow, SshKey } from "../accounts/store.ts";
import { isNameTaken, liveAccount } from "./account-rows.ts";
import { asked } from "./asked.ts";
import { writeAudit } from "./audit-rows.ts";
import { announce } from "./change-feed.ts";
import { inTransaction, uniqueViolation } from "./database.ts";
import { endAccount, mayEnd } from "./end-account.ts";
import type { Database } from "./schema.ts";

const profileColumns = [
  "account_id",
  "email",
  "email_verified",
  "display_name",
  "name",
  "first_name",
  "last_name",
  "country",
  "country_code",
  "company",
  "website",
  "title",
  "use_case",
  "attribution",
  "marketing_emails",
  "is_business_account",
  "is_team_account",
  "team_display_name",
  "is_admin",
  "suspend_reason",
  "created_at",
] as const;

export function createPeopleStore(db: Kysely<Database>): PeopleStore {
  const profileRow = (account: AccountId) =>
    db
      .selectFrom("account")
      .select(profileColumns)
      .where("account_id", "=", account)
      .where("deleted_at", "is", null)
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
            .select(["email", "display_name"])
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
              update.set({ email_verified: sql<boolean>`is_admin or (email_verified and email = ${change.email})` }),
            )
            .where("account_id", "=", actor.account)
            .execute();
          const after = {
            email: change.email ?? before.email,
            display_name: change.displayName ?? before.display_name,
          };
          if (after.email !== before.email || after.display_name !== before.display_name)
            await auditOwn(trx, actor, "account.change", before, after);
          await announce(trx, "account", actor.account);
          return "changed";
        }),
      ),

    nameTeam: (actor, name) =>
      namesOf(() =>
        inTransaction(db, async (trx): Promise<ProfileOutcome> => {
          const before = await liveAccount(trx, actor.account)
            .select(["is_team_account", "team_display_name"])
            .forUpdate()
            .executeTakeFirst();
          if (!before) return "gone";
          if (!before.is_team_account) return "no_team";
          await trx
            .updateTable("account")
            .set({ team_display_name: name })
            .where("account_id", "=", actor.account)
            .execute();
          await auditOwn(trx, actor, "account.name_team", before.team_display_name, name);
          await announce(trx, "account", actor.account);
          return "changed";
        }),
      ),

    mayEnd: (account) => inTransaction(db, (trx) => mayEnd(trx, account)),
    end: (actor) => inTransaction(db, (trx) => endAccount(trx, actor)),

    async sshKeys(account) {
      const rows = await db
        .selectFrom("ssh_key")
        .selectAll()
        .where("account_id", "=", account)
        .orderBy("created_at")
        .orderBy("name")
        .execute();
      return rows.map(
        (row): SshKey => ({
          id: row.ssh_key_id,
          name: row.name,
          key: row.public_key,
          fingerprint: row.fingerprint,
          createdAtMs: row.created_at.getTime(),
        }),
      );
    },

    async addSshKey(account, key) {
      const { numInsertedOrUpdatedRows = 0n } = await db
        .insertInto("ssh_key")
        .values({
          ssh_key_id: key.id,
          account_id: account,
          name: key.name,
          public_key: key.key,
          fingerprint: key.fingerprint,
          created_at: new Date(key.createdAtMs),
        })
        .onConflict((conflict) => conflict.constraint("ssh_key_name").doNothing())
        .executeTakeFirst();
      return numInsertedOrUpdatedRows > 0n;
    },

    async removeSshKey(account, id) {
      const { numDeletedRows } = await db
        .deleteFrom("ssh_key")
        .where("account_id", "=", account)
        .where("ssh_key_id", "=", id)
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

function auditOwn(
  trx: Parameters<typeof announce>[0],
  actor: Actor,
  action: string,
  before: unknown,
  after: unknown,
): Promise<void> {
  const { account, ip } = actor;
  return writeAudit(trx, { actor: account, action, subject: account, account, ip, before, after });
}

/** The fields that are given, by their columns. */
function columnsOf(change: ProfileChange) {
  const columns = {
    email: change.email,
    display_name: change.displayName,
    name: change.name,
    first_name: change.firstName,
    last_name: change.lastName,
    country: change.country,
    country_code: change.countryCode,
    company: change.company,
    website: change.website,
    title: change.title,
    use_case: change.useCase,
    attribution: change.attribution,
    marketing_emails: change.marketingEmails,
    is_business_account: change.isBusinessAccount,
  };
  return Object.fromEntries(Object.entries(columns).filter(([, value]) => value !== undefined));
}

type StoredProfile = Pick<Selectable<Database["account"]>, (typeof profileColumns)[number]>;

function profileOf(row: StoredProfile): ProfileRow {
  return {
    account: row.account_id as AccountId,
    email: row.email,
    emailVerified: row.email_verified,
    displayName: row.display_name,
    name: row.name,
    firstName: row.first_name,
    lastName: row.last_name,
    country: row.country,
    countryCode: row.country_code,
    company: row.company,
    website: row.website,
    title: row.title,
    useCase: row.use_case,
    attribution: row.attribution,
    marketingEmails: row.marketing_emails,
    isBusinessAccount: row.is_business_account,
    isTeamAccount: row.is_team_account,
    teamDisplayName: row.team_display_name,
    isAdmin: row.is_admin,
    suspendReason: row.suspend_reason,
    createdAtMs: row.created_at.getTime(),
  };
}
