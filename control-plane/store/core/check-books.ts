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
  /** Account days, or months that are not divided into days, whose stored sums differ from ledger and usage. */
  readonly wrongDays: readonly string[];
  /** Scoped tokens whose stored sums of a day differ from ledger and usage. */
  readonly wrongTokens: readonly string[];
  /** End users whose stored sums of a month differ from those of its days. */
  readonly wrongEndUserMonths: readonly string[];
  /** Requests with more than one charged attempt. */
  readonly doubleCaptures: readonly string[];
}

/** Checks the invariants I1 to I3 and the daily sums in one snapshot, reading every row. For tests and support. */
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
          where scope in ('account_month', 'key_month', 'jwt') and spent <> coalesce(captured, 0)
            and not exists (select from usage_retention where scope <> 'jwt'
              and right(budget_id, 6) < to_char(expired_before at time zone 'UTC', 'YYYYMM'))
            and not exists (select from usage_token where token_budget = budget_id and day < ${complete})`),
        wrongLeased: await names(sql`
          select budget_id as name from budget left join (
            select budget_id, sum(granted - settled) as open from lease where closed_at is null group by 1) l
            using (budget_id)
          where leased <> coalesce(open, 0)`),
        aboveLimit: await names(
          sql`select budget_id as name from budget where lim is not null and spent + leased > lim`,
        ),
        wrongDays: await names(sql`
          with said as (
            select account_id, ${day("posted_at")} as day, coalesce(key_id, '') as key_id, coalesce(model, '') as model,
              coalesce(price_version, 0) as price_version, coalesce(discount_id, '') as discount_id,
              amount as cost, 1 as entries, 0 as records, 0 as requests, 0 as tokens, 0 as output_tokens, 0 as others
            from ledger_entry where book = 'customer_spent' and kind <> 'invoice'
            union all
            select account_id, ${day("settled_at")}, key_id, model, price_version, coalesce(discount_id, ''), 0, 0, 1,
              (gpu_ms = 0)::integer, input_tokens + output_tokens, output_tokens, gpu_ms + characters + audio_ms + images
            from usage where not voided
            union all
            select account_id, make_date(month / 12, month % 12 + 1, greatest(day, 1)), key_id, model, price_version, discount_id,
              -cost, -entries, -records, -requests, -tokens, -output_tokens, -(gpu_ms + characters + audio_ms + images)
            from usage_day
          ), placed as (
            -- Requests and output are not among the sums of a month.
            select said.*, u.account_id is null as is_divided,
              case when u.account_id is null then day else date_trunc('month', day)::date end as of_day
            from said left join usage_undivided u on u.account_id = said.account_id
              and u.month = date_part('year', day) * 12 + date_part('month', day) - 1
          )
          select account_id || '/' || of_day as name from placed
          group by account_id, of_day, is_divided, key_id, model, price_version, discount_id
          having sum(cost) <> 0 or sum(entries) <> 0 or of_day >= ${complete} and (sum(records) <> 0 or sum(tokens) <> 0
            or sum(others) <> 0 or is_divided and (sum(requests) <> 0 or sum(output_tokens) <> 0))`),
        wrongTokens: await names(sql`
          with said as (
            select l.account_id, ${day("posted_at")} as day, token_budget, amount as cost, 0 as requests, 0 as input, 0 as output
            from ledger_entry l join usage u using (request_id, attempt)
            where book = 'customer_spent' and kind <> 'invoice' and token_budget is not null
            union all
            select account_id, ${day("settled_at")}, token_budget, 0, 1, input_tokens, output_tokens
            from usage where not voided and token_budget is not null
            union all
            select account_id, day, token_budget, -cost, -requests, -input_tokens, -output_tokens from usage_token
          )
          select token_budget || '/' || day as name from said
          where day >= ${complete} and not exists (select from usage_undivided u where u.account_id = said.account_id
            and u.month = date_part('year', day) * 12 + date_part('month', day) - 1)
          group by account_id, token_budget, day
          having sum(cost) <> 0 or sum(requests) <> 0 or sum(input) <> 0 or sum(output) <> 0`),
        wrongEndUserMonths: await names(sql`
          with said as (
            select account_id, date_part('year', day) * 12 + date_part('month', day) - 1 as month, end_user, requests, input_tokens,
              output_tokens, cost, 1 << date_part('day', day)::integer - 1 as days, 0 as month_days
            from usage_end_user
            union all
            select account_id, month, end_user, -requests, -input_tokens, -output_tokens, -cost, 0, days from usage_end_user_month
          )
          select end_user || '/' || month as name from said
          where not exists (select from end_user_unsummed u where u.account_id = said.account_id and u.month = said.month)
          group by account_id, month, end_user
          having sum(requests) <> 0 or sum(input_tokens) <> 0 or sum(output_tokens) <> 0 or sum(cost) <> 0
            or bit_or(days) <> bit_or(month_days)`),
        doubleCaptures: await names(sql`
          select request_id as name from usage where charge > 0 group by 1 having count(*) > 1`),
      };
    });
}

const day = (column: string) => sql.raw(`(${column} at time zone 'UTC')::date`);

/** First day whose records are all there: of an expired month, some were settled later. */
const complete = sql.raw(
  `coalesce((select (expired_before at time zone 'UTC')::date + 40 from usage_retention), '-infinity'::date)`,
);
