import type { Kysely } from "kysely";
import type { BudgetId, KeyId } from "../../proto/ids.ts";
import type { LimitStore } from "../billing/store.ts";
import { asked } from "./asked.ts";
import { writeAudit } from "./audit-rows.ts";
import { movingMoney } from "./budget-rows.ts";
import { announce } from "./change-feed.ts";
import { setMonthlyLimit } from "./monthly-limit-rows.ts";
import type { Database } from "./schema.ts";

export function createLimitStore(db: Kysely<Database>): LimitStore {
  return asked<LimitStore>({
    async accountLimit(account) {
      const row = await db
        .selectFrom("account")
        .select("monthly_limit")
        .where("account_id", "=", account)
        .executeTakeFirst();
      return row?.monthly_limit ?? null;
    },

    async keyLimits(account, monthOf) {
      const keys = await db
        .selectFrom("api_key")
        .select(["token_id", "name", "monthly_limit"])
        .where("account_id", "=", account)
        .where("revoked_at", "is", null)
        .orderBy("created_at")
        .execute();
      const ids = keys.map((row) => monthOf(row.token_id as KeyId));
      const budgets =
        ids.length === 0
          ? []
          : await db.selectFrom("budget").select(["budget_id", "spent"]).where("budget_id", "in", ids).execute();
      const spent = new Map(budgets.map((row) => [row.budget_id as BudgetId, row.spent]));
      return keys.map((row) => {
        const key = row.token_id as KeyId;
        return { key, name: row.name, limit: row.monthly_limit, spent: spent.get(monthOf(key)) ?? 0n };
      });
    },

    setLimit: (owner, limit, month, by) =>
      movingMoney(db, async (trx) => {
        const { account, key } = owner;
        const of =
          key === undefined
            ? trx.selectFrom("account").select("monthly_limit").where("account_id", "=", account)
            : trx.selectFrom("api_key").select("monthly_limit").where("token_id", "=", key);
        const before = await of.executeTakeFirst();
        if (!(await setMonthlyLimit(trx, owner, limit, month))) return false;
        await writeAudit(trx, {
          ...by,
          action: "limit.change",
          subject: key ?? account,
          account,
          before: { monthly_limit: before?.monthly_limit?.toString() ?? null },
          after: { monthly_limit: limit?.toString() ?? null },
        });
        await announce(trx, "limit", account);
        // What is known of the credentials says whether there is a limit at all.
        await announce(trx, key === undefined ? "account" : "key", key ?? account);
        return true;
      }),
  });
}
