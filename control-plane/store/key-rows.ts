// Keys with their accounts, as both the account store and the token store read them.
import type { Kysely } from "kysely";
import type { AccountId, KeyId } from "../../proto/ids.ts";
import type { AccountRow, KeyRow, SigningKeyRow } from "../accounts/store.ts";
import type { Database } from "./schema.ts";

export const accountColumns = [
  "account.account_id",
  "email",
  "display_name",
  "is_admin",
  "suspend_reason",
  "account.created_at",
] as const;

const keyColumns = [
  ...accountColumns,
  "account.monthly_limit as account_limit",
  "token_id",
  "lookup",
  "allowed_ips",
  "api_key.monthly_limit as key_limit",
] as const;

/** Live keys of live accounts. */
export const liveKeys = (db: Kysely<Database>) =>
  db
    .selectFrom("api_key")
    .innerJoin("account", "account.account_id", "api_key.account_id")
    .where("revoked_at", "is", null)
    .where("deleted_at", "is", null);

export const liveKeyRows = (db: Kysely<Database>) => liveKeys(db).select(keyColumns);
export const signingKeyRows = (db: Kysely<Database>) =>
  liveKeys(db).select([...keyColumns, "ciphertext", "wrapped_dek"]);

interface StoredAccount {
  readonly account_id: string;
  readonly email: string;
  readonly display_name: string;
  readonly is_admin: boolean;
  readonly suspend_reason: string | null;
  readonly created_at: Date;
}

interface StoredKey extends StoredAccount {
  readonly token_id: string;
  readonly lookup: Buffer;
  readonly allowed_ips: string[] | null;
  readonly account_limit: bigint | null;
  readonly key_limit: bigint | null;
}

export function accountOf(row: StoredAccount): AccountRow {
  return {
    account: row.account_id as AccountId,
    email: row.email,
    displayName: row.display_name,
    isAdmin: row.is_admin,
    suspendReason: row.suspend_reason,
    createdAtMs: row.created_at.getTime(),
  };
}

export function keyOf(row: StoredKey | undefined): KeyRow | undefined {
  return (
    row && {
      key: row.token_id as KeyId,
      account: accountOf(row),
      lookup: row.lookup,
      allowedIps: row.allowed_ips,
      hasAccountLimit: row.account_limit !== null,
      hasKeyLimit: row.key_limit !== null,
    }
  );
}

export function signingKeyOf(
  row: (StoredKey & { readonly ciphertext: Buffer; readonly wrapped_dek: Buffer }) | undefined,
): SigningKeyRow | undefined {
  const key = keyOf(row);
  return row && key && { ...key, ciphertext: row.ciphertext, wrappedDek: row.wrapped_dek };
}
