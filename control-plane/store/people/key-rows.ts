// Keys with their accounts, as both the account store and the token store read them.
import type { Kysely } from "kysely";
import type { AccountId, KeyId } from "../../../proto/ids.ts";
import type { AccountRow, KeyRow, SigningKeyRow } from "../../accounts/store.ts";
import type { Database } from "../core/schema.ts";

export const accountColumns = [
  "account.accountId",
  "email",
  "displayName",
  "isAdmin",
  "suspendReason",
  "account.createdAt",
] as const;

const keyColumns = [
  ...accountColumns,
  "account.monthlyLimit as accountLimit",
  "tokenId",
  "lookup",
  "allowedIps",
  "apiKey.monthlyLimit as keyLimit",
] as const;

/** Live keys of live accounts. */
export const liveKeys = (db: Kysely<Database>) =>
  db
    .selectFrom("apiKey")
    .innerJoin("account", "account.accountId", "apiKey.accountId")
    .where("revokedAt", "is", null)
    .where("deletedAt", "is", null);

export const liveKeyRows = (db: Kysely<Database>) => liveKeys(db).select(keyColumns);
export const signingKeyRows = (db: Kysely<Database>) =>
  liveKeys(db).select([...keyColumns, "ciphertext", "wrappedDek"]);

interface StoredAccount {
  readonly accountId: string;
  readonly email: string;
  readonly displayName: string;
  readonly isAdmin: boolean;
  readonly suspendReason: string | null;
  readonly createdAt: Date;
}

interface StoredKey extends StoredAccount {
  readonly tokenId: string;
  readonly lookup: Buffer;
  readonly allowedIps: string[] | null;
  readonly accountLimit: bigint | null;
  readonly keyLimit: bigint | null;
}

export function accountOf(row: StoredAccount): AccountRow {
  return {
    account: row.accountId as AccountId,
    email: row.email,
    displayName: row.displayName,
    isAdmin: row.isAdmin,
    suspendReason: row.suspendReason,
    createdAtMs: row.createdAt.getTime(),
  };
}

export function keyOf(row: StoredKey | undefined): KeyRow | undefined {
  return (
    row && {
      key: row.tokenId as KeyId,
      account: accountOf(row),
      lookup: row.lookup,
      allowedIps: row.allowedIps,
      hasAccountLimit: row.accountLimit !== null,
      hasKeyLimit: row.keyLimit !== null,
    }
  );
}

export function signingKeyOf(
  row: (StoredKey & { readonly ciphertext: Buffer; readonly wrappedDek: Buffer }) | undefined,
): SigningKeyRow | undefined {
  const key = keyOf(row);
  return row && key && { ...key, ciphertext: row.ciphertext, wrappedDek: row.wrappedDek };
}
