// Parts of queries on accounts, for other transactions.
import { sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import { findsRow } from "../core/rows.ts";
import type { Trx } from "../core/schema.ts";

/** The row of an account that is not deleted; the caller selects and locks as it needs. */
export const liveAccount = (trx: Trx, account: AccountId) =>
  trx.selectFrom("account").where("accountId", "=", account).where("deletedAt", "is", null);

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
