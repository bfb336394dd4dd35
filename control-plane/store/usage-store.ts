import { type Kysely, sql } from "kysely";
import type { LabelStore, MonthlyUse, UsageStore } from "../billing/store.ts";
import { asking } from "./database.ts";
import type { Database } from "./schema.ts";

/** Money is summed from the ledger, tokens from the records; both by time of posting, so a closed month never changes. */
export function createUsageStore(db: Kysely<Database>): UsageStore & LabelStore {
  return {
    monthlyUse: ({ account, key }, fromMs, toMs) =>
      asking(async () => {
        const ofKey = key === undefined ? sql`` : sql`and key_id = ${key}`;
        const from = new Date(fromMs).toISOString();
        const to = new Date(toMs).toISOString();
        const { rows } = await sql<{
          month: Date;
          model: string;
          cost: bigint;
          tokens: bigint;
          task: string | null;
          is_private: boolean | null;
        }>`
          with money as (
            select date_trunc('month', posted_at, 'UTC') as month, model, sum(amount)::bigint as cost
            from ledger_entry
            where account_id = ${account} ${ofKey} and book = 'customer_spent' and kind in ('capture', 'correction')
              and posted_at >= ${from}::timestamptz and posted_at < ${to}::timestamptz
            group by 1, 2
          ), tokens as (
            select date_trunc('month', settled_at, 'UTC') as month, model, max(deploy_id) as deploy_id,
              sum(input_tokens + output_tokens)::bigint as tokens
            from usage
            where account_id = ${account} ${ofKey} and not voided
              and settled_at >= ${from}::timestamptz and settled_at < ${to}::timestamptz
            group by 1, 2
          )
          select coalesce(money.month, tokens.month) as month, coalesce(money.model, tokens.model) as model,
            coalesce(cost, 0)::bigint as cost, coalesce(tokens, 0)::bigint as tokens,
            d.task, d.account_id = ${account} as is_private
          from money full join tokens on money.month = tokens.month and money.model = tokens.model
          left join deployment d on d.deploy_id = tokens.deploy_id
          order by 1, 2`.execute(db);
        return rows.map(
          (row): MonthlyUse => ({
            monthMs: row.month.getTime(),
            model: row.model,
            task: row.task ?? "text-generation",
            isPrivate: row.is_private ?? false,
            tokens: row.tokens,
            cost: row.cost,
          }),
        );
      }),

    funds: (account, monthStartMs) =>
      asking(async () => {
        const row = await db
          .selectFrom("account")
          .innerJoin("budget", (join) =>
            join.onRef("budget.account_id", "=", "account.account_id").on("budget.scope", "=", "account"),
          )
          .select(["lim", "spent", "suspend_reason"])
          .where("account.account_id", "=", account)
          .executeTakeFirst();
        if (!row) return undefined;
        const { rows } = await sql<{ month: bigint }>`
          select coalesce(sum(amount), 0)::bigint as month from ledger_entry
          where account_id = ${account} and book = 'customer_spent' and kind in ('capture', 'correction')
            and posted_at >= ${new Date(monthStartMs).toISOString()}::timestamptz`.execute(db);
        const spentThisMonth = rows[0]?.month ?? 0n;
        return { limit: row.lim, spent: row.spent, spentThisMonth, suspendReason: row.suspend_reason };
      }),

    saveLabels: (labels) =>
      asking(async () => {
        await db
          .insertInto("request_label")
          .values(labels.map((l) => ({ request_id: l.requestId, label: l.label, account_id: l.account })))
          .onConflict((conflict) => conflict.doNothing())
          .execute();
      }),
  };
}
