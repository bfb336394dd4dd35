// Keys with their accounts, as both the account store and the token store read them.
import { sql } from "kysely";
import type { AccountRow, KeyRow } from "../../accounts/store.ts";
import type { Db } from "../core/schema.ts";
import { epochMs } from "../core/time.ts";

/** Columns of an AccountRow. */
export const accountColumns = [
  "account.accountId as account",
  "email",
  "displayName",
  "isAdmin",
  "suspendReason",
  epochMs("account.createdAt").as("createdAtMs"),
] as const;

/** Live keys of live accounts. */
export const liveKeys = (db: Db) =>
  db
    .selectFrom("apiKey")
    .innerJoin("account", "account.accountId", "apiKey.accountId")
    .where("revokedAt", "is", null)
    .where("deletedAt", "is", null);

export const liveKeyRows = (db: Db) =>
  liveKeys(db)
    .select([...accountColumns, "tokenId as key", "lookup", "allowedIps"])
    .select([
      sql<boolean>`account.monthly_limit is not null`.as("hasAccountLimit"),
      sql<boolean>`api_key.monthly_limit is not null`.as("hasKeyLimit"),
    ]);

export const signingKeyRows = (db: Db) => liveKeyRows(db).select(["ciphertext", "wrappedDek"]);

/** Moves the account's columns of a key's row into a record of their own. */
export function keyOf<Row extends Omit<KeyRow, "account"> & AccountRow>(row: Row) {
  const { account, email, displayName, isAdmin, suspendReason, createdAtMs, ...key } = row;
  return { ...key, account: { account, email, displayName, isAdmin, suspendReason, createdAtMs } };
}
