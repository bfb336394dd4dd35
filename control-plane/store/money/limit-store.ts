import type { BudgetId, KeyId } from "../../../proto/ids.ts";
import type { LimitStore } from "../../billing/store.ts";
import { asked } from "../core/asked.ts";
import { announce } from "../core/change-feed.ts";
import type { Db } from "../core/schema.ts";
import { writeAudit } from "../people/audit-rows.ts";
import { movingMoney } from "./budget-rows.ts";
import { setMonthlyLimit } from "./monthly-limit-rows.ts";

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
      const ids = keys.map((row) => monthOf(row.tokenId as KeyId));
      const budgets =
        ids.length === 0
          ? []
          : await db.selectFrom("budget").select(["budgetId", "spent"]).where("budgetId", "in", ids).execute();
      const spent = new Map(budgets.map((row) => [row.budgetId as BudgetId, row.spent]));
      return keys.map((row) => {
        const key = row.tokenId as KeyId;
        return { key, name: row.name, limit: row.monthlyLimit, spent: spent.get(monthOf(key)) ?? 0n };
      });
    },

    setLimit: (owner, limit, month, by) =>
      movingMoney(db, async (trx) => {
        const { account, key } = owner;
        const of =
          key === undefined
            ? trx.selectFrom("account").select("monthlyLimit").where("accountId", "=", account)
            : trx.selectFrom("apiKey").select("monthlyLimit").where("tokenId", "=", key);
        const before = await of.executeTakeFirst();
        if (!(await setMonthlyLimit(trx, owner, limit, month))) return false;
        await writeAudit(trx, {
          ...by,
          action: "limit.change",
          subject: key ?? account,
          account,
          before: { monthly_limit: before?.monthlyLimit?.toString() ?? null },
          after: { monthly_limit: limit?.toString() ?? null },
        });
        await announce(trx, "limit", account);
        // What is known of the credentials says whether there is a limit at all.
        await announce(trx, key === undefined ? "account" : "key", key ?? account);
        return true;
      }),
  });
}
