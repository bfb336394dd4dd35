import { sql } from "kysely";
import type { AccountId, BudgetId, KeyId } from "../../../proto/ids.ts";
import type { Act } from "../../act.ts";
import type { LimitStore } from "../../billing/store.ts";
import { lockAccount } from "../accounts/account-rows.ts";
import { auditAct } from "../accounts/audit-rows.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db, Trx } from "../core/schema.ts";

export function createLimitStore(db: Db): LimitStore {
  return asked<LimitStore>({
    async accountLimit(account) {
      const row = await db
        .selectFrom("account")
        .select("monthlyLimit")
        .where("accountId", "=", account)
        .executeTakeFirst();
      return row?.monthlyLimit ?? null;
    },

    async keyLimits(account, monthOf) {
      const keys = await db
        .selectFrom("apiKey")
        .select(["tokenId", "name", "monthlyLimit"])
        .where("accountId", "=", account)
        .where("revokedAt", "is", null)
        .orderBy("createdAt")
        .execute();
      const ids = keys.map((row) => monthOf(row.tokenId));
      const budgets =
        ids.length === 0
          ? []
          : await db.selectFrom("budget").select(["budgetId", "spent"]).where("budgetId", "in", ids).execute();
      const spent = new Map(budgets.map((row) => [row.budgetId, row.spent]));
      return keys.map((row) => {
        const key = row.tokenId;
        return { key, name: row.name, limit: row.monthlyLimit, spent: spent.get(monthOf(key)) ?? 0n };
      });
    },

    setLimit: (owner, limit, month, by) =>
      inTransaction(db, async (trx) => {
        const { account, key } = owner;
        if (!(await setMonthlyLimit(trx, owner, limit, month, by))) return false;
        await announce(trx, "limit", account);
        // The cached credentials contain whether there is a limit.
        await announce(trx, key === undefined ? "account" : "key", key ?? account);
        return true;
      }),
  });
}

/**
 * Sets what the account, or one of its keys, may spend per UTC month, and audits the change; null: no limit, 0 blocks. `month`: the
 * present month's budget (billing/scopes.ts).
 * False when there is no such account or live key. The caller's last statements announce `limit` with the answered account's
 * id (held slices go back) and `account` or `key` (cached data of the credential is read again).
 */
export async function setMonthlyLimit(
  trx: Trx,
  owner: { readonly account: AccountId; readonly key?: KeyId },
  limit: bigint | null,
  month: BudgetId,
  by: Act,
): Promise<boolean> {
  const { account, key } = owner;
  if (!(await lockAccount(trx, account, "forUpdate"))) return false;
  const liveKey =
    key === undefined
      ? undefined
      : trx
          .selectFrom("apiKey")
          .select("monthlyLimit")
          .where("tokenId", "=", key)
          .where("accountId", "=", account)
          .where("revokedAt", "is", null)
          .forUpdate();
  const ofAccount = trx.selectFrom("account").select("monthlyLimit").where("accountId", "=", account);
  const before = await (liveKey ?? ofAccount).executeTakeFirst();
  if (!before) return false;
  await (key === undefined
    ? trx.updateTable("account").set({ monthlyLimit: limit }).where("accountId", "=", account).execute()
    : trx.updateTable("apiKey").set({ monthlyLimit: limit }).where("tokenId", "=", key).execute());
  await auditAct(trx, by, {
    action: "limit.change",
    subject: key ?? account,
    account,
    before: { monthly_limit: before.monthlyLimit?.toString() ?? null },
    after: { monthly_limit: limit?.toString() ?? null },
  });
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
