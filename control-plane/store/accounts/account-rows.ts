// Parts of queries on accounts, for other transactions.
import { sql } from "kysely";
import type { AccountId, MemberId } from "../../../proto/ids.ts";
import type { AccountRow, KeyRow, MemberRole } from "../../accounts/store.ts";
import { findsRow } from "../core/rows.ts";
import type { Db, Trx } from "../core/schema.ts";
import { epochMs } from "../core/time.ts";

/** The row of an account that is not deleted; the caller selects and locks as it needs. */
export const liveAccount = (trx: Trx, account: AccountId) =>
  trx.selectFrom("account").where("accountId", "=", account).where("deletedAt", "is", null);

/**
 * Locks a live account until the commit; false when there is none. By default serialises everything that counts against its limits, without
 * blocking readers of the row or foreign keys to it.
 */
export const lockAccount = (
  trx: Trx,
  account: AccountId,
  strength: "forUpdate" | "forNoKeyUpdate" | "forShare" = "forNoKeyUpdate",
): Promise<boolean> => liveAccount(trx, account).select("accountId")[strength]().$call(findsRow);

/** True when the provider that manages the account has deactivated its person; on operators it does not decide. */
export const isDeprovisioned = sql<boolean>`exists (
  select from identity i where i.account_id = account.account_id and i.is_managed and not i.is_active and not account.is_admin)`;

/** True when the operator requires a second factor of `account`. */
export const mustHaveFactor = sql<boolean>`exists (
  select 1 from sign_in_policy p
    where p.second_factor = 'all' or (p.second_factor = 'operators' and account.is_admin))`;

/** True for a unique violation of the display name, ignoring case. */
export const isNameTaken = (constraint: string | undefined): boolean =>
  constraint === "account_display_name_key" || constraint === "account_display_name_folded";

/** Held by every write that may remove an administrator, so that two at once cannot remove the last one. */
const adminsLock = 7_205_003;

export async function lockAdmins(trx: Trx): Promise<void> {
  await sql`select pg_advisory_xact_lock(${sql.lit(adminsLock)})`.execute(trx);
}

/** Call after `lockAdmins`. */
export async function hasOtherAdmin(trx: Trx, account: AccountId): Promise<boolean> {
  return trx
    .selectFrom("account")
    .select("accountId")
    .where("isAdmin", "=", true)
    .where("deletedAt", "is", null)
    .where("accountId", "<>", account)
    .limit(1)
    .$call(findsRow);
}

/** Columns of an AccountRow. */
export const accountColumns = [
  "account.accountId as account",
  "email",
  "displayName",
  "isAdmin",
  "suspendReason",
  "mayPrioritize",
  epochMs("account.createdAt").as("createdAtMs"),
] as const;

/** Columns of KeyRules. */
export const ruleColumns = [
  "allowedIps",
  "allowedModels",
  epochMs<null>("expiresAt").as("expiresAtMs"),
  "requestsPerMinute",
  "tokensPerMinute",
  "apiKey.role",
  "trustsUserHeaders",
] as const;

/**
 * Live keys of live accounts; a key of a member only while there is that member, and their own account. A control plane of the release
 * before deletes a person's account without their memberships.
 */
export const liveKeys = (db: Db) =>
  db
    .selectFrom("apiKey")
    .innerJoin("account", "account.accountId", "apiKey.accountId")
    .leftJoin("member", (join) =>
      join.onRef("member.memberId", "=", "apiKey.memberId").onRef("member.accountId", "=", "apiKey.accountId"),
    )
    .where((key) => key.or([key("apiKey.memberId", "is", null), key("member.memberId", "is not", null)]))
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom("account as person")
            .select("person.accountId")
            .whereRef("person.accountId", "=", "member.personId")
            .where("person.deletedAt", "is not", null),
        ),
      ),
    )
    .where("revokedAt", "is", null)
    .where("account.deletedAt", "is", null);

export const liveKeyRows = (db: Db) =>
  liveKeys(db)
    .select([...accountColumns, "tokenId as key", "lookup", "projectId", ...ruleColumns])
    .select(["member.memberId as memberId", "member.role as memberRole", "member.personId as memberPerson"])
    .select([
      sql<boolean>`account.monthly_limit is not null`.as("hasAccountLimit"),
      sql<boolean>`api_key.monthly_limit is not null`.as("hasKeyLimit"),
    ]);

export const signingKeyRows = (db: Db) => liveKeyRows(db).select(["ciphertext", "wrappedDek"]);

interface KeyMember {
  readonly memberId: MemberId | null;
  readonly memberRole: MemberRole | null;
  readonly memberPerson: AccountId | null;
}

/** Moves the member's and the account's columns of a key's row into a record of their own. */
export function keyOf<Row extends Omit<KeyRow, "account" | "member"> & AccountRow & KeyMember>(row: Row) {
  const { account, email, displayName, isAdmin, suspendReason, mayPrioritize, createdAtMs, ...rest } = row;
  const { memberId: id, memberRole: role, memberPerson: person, ...key } = rest;
  const owner = { account, email, displayName, isAdmin, suspendReason, mayPrioritize, createdAtMs };
  return { ...key, account: owner, member: id === null || role === null ? null : { id, role, person } };
}
