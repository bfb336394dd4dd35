import { sql } from "kysely";
import type { Db } from "./schema.ts";

/** Violated invariants of the books; empty lists and sum 0 if there are none. */
export interface BookCheck {
  /** Sum of the whole ledger. */
  readonly imbalance: bigint;
  readonly unbalancedTransactions: readonly string[];
  /** Budgets whose `spent` differs from the ledger's captures (accounts) or the charges of usage (months, keys, tokens). */
  readonly wrongSpent: readonly string[];
  /** Budgets whose `leased` differs from the sum of their open leases. */
  readonly wrongLeased: readonly string[];
  readonly aboveLimit: readonly string[];
  /** Account months whose stored sums differ from ledger and usage. */
  readonly wrongMonths: readonly string[];
  /** Requests with more than one charged attempt. */
  readonly doubleCaptures: readonly string[];
}

/** Checks the invariants I1 to I3 and the monthly sums in one snapshot, reading every row. For tests and support. */
export function checkBooks(db: Db): Promise<BookCheck> {
  return db
    .transaction()
    .setIsolationLevel("repeatable read")
    .execute(async (trx) => {
      const names = async (query: ReturnType<typeof sql<{ name: string }>>) =>
        (await query.execute(trx)).rows.map((row) => row.name);
      const { rows } = await sql<{ sum: bigint }>`
        select coalesce(sum(amount), 0)::bigint as sum from ledger_entry`.execute(trx);
      return {
        imbalance: rows[0]?.sum ?? 0n,
        unbalancedTransactions: await names(sql`
          select transaction_id as name from ledger_entry group by 1 having sum(amount) <> 0`),
        wrongSpent: await names(sql`
          select budget_id as name from budget left join (
            select account_id, sum(amount) as captured from ledger_entry
            where book = 'customer_spent' and kind in ('capture', 'correction') group by 1) c using (account_id)
          where scope = 'account' and spent <> coalesce(captured, 0)
          union all
          select budget_id from budget left join (
            select 'account-month/' || account_id || to_char(admitted_at at time zone 'UTC', '"/"YYYYMM') as budget_id,
              sum(charge) as captured from usage group by 1
            union all
            select 'key/' || key_id || to_char(admitted_at at time zone 'UTC', '"/"YYYYMM'), sum(charge) from usage group by 1
            union all
            select token_budget, sum(charge) from usage where token_budget is not null group by 1
          ) c using (budget_id)
          where scope in ('account_month', 'key_month', 'jwt') and spent <> coalesce(captured, 0)`),
        wrongLeased: await names(sql`
          select budget_id as name from budget left join (
            select budget_id, sum(granted - settled) as open from lease where closed_at is null group by 1) l
            using (budget_id)
          where leased <> coalesce(open, 0)`),
        aboveLimit: await names(
          sql`select budget_id as name from budget where lim is not null and spent + leased > lim`,
        ),
        wrongMonths: await names(sql`
          with said as (
            select account_id, ${month("posted_at")} as month, coalesce(key_id, '') as key_id, coalesce(model, '') as model,
              coalesce(price_version, 0) as price_version, coalesce(discount_id, '') as discount_id,
              amount as cost, 1 as entries, 0 as records, 0 as tokens, 0 as others
            from ledger_entry where book = 'customer_spent' and kind <> 'invoice'
            union all
            select account_id, ${month("settled_at")}, key_id, model, price_version, coalesce(discount_id, ''), 0, 0, 1,
              input_tokens + output_tokens, gpu_ms + characters + audio_ms + images from usage where not voided
            union all
            select account_id, month, key_id, model, price_version, discount_id, -cost, -entries, -records, -tokens,
              -(gpu_ms + characters + audio_ms + images) from usage_month
          )
          select account_id || '/' || month as name from said group by account_id, month, key_id, model, price_version, discount_id
          having sum(cost) <> 0 or sum(entries) <> 0 or sum(records) <> 0 or sum(tokens) <> 0 or sum(others) <> 0`),
        doubleCaptures: await names(sql`
          select request_id as name from usage where charge > 0 group by 1 having count(*) > 1`),
      };
    });
}

const month = (column: string) =>
  sql.raw(
    `(extract(year from ${column} at time zone 'UTC') * 12 + extract(month from ${column} at time zone 'UTC') - 1)::int`,
  );
