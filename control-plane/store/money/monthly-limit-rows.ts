import { sql } from "kysely";
import type { AccountId, BudgetId, KeyId } from "../../../proto/ids.ts";
import type { Trx } from "../core/schema.ts";
import { liveAccount } from "../people/account-rows.ts";

/**
 * Sets what the account, or one of its keys, may spend per UTC month; null: no limit, 0 blocks. `month`: the present month's
 * budget (billing/scopes.ts).
 * False when there is no such account or live key. The caller's last statements announce `limit` with the answered account's
 * id (held slices go back) and `account` or `key` (what is known of the credential is read anew).
 */
export async function setMonthlyLimit(
  trx: Trx,
  owner: { readonly account: AccountId; readonly key?: KeyId },
  limit: bigint | null,
  month: BudgetId,
): Promise<boolean> {
  const { account, key } = owner;
  const found = await liveAccount(trx, account).select("accountId").forUpdate().executeTakeFirst();
  if (!found) return false;
  if (key === undefined) {
    await trx.updateTable("account").set({ monthlyLimit: limit }).where("accountId", "=", account).execute();
  } else {
    const { numUpdatedRows } = await trx
      .updateTable("apiKey")
      .set({ monthlyLimit: limit })
      .where("tokenId", "=", key)
      .where("accountId", "=", account)
      .where("revokedAt", "is", null)
      .executeTakeFirst();
    if (numUpdatedRows === 0n) return false;
  }
  await trx
    .insertInto("budget")
    .values({ budgetId: month, scope: key === undefined ? "account_month" : "key_month", accountId: account })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  // The next month's row may be there already. A month is the last six digits.
  await sql`update budget set lim = ${limit?.toString() ?? null}::bigint
    where account_id = ${account} and starts_with(budget_id, ${month.slice(0, -6)}) and budget_id >= ${month}`.execute(
    trx,
  );
  return true;
}
