import { type Kysely, sql } from "kysely";
import { addToMonth, thisMonth, usageMonthColumns } from "./usage-month-sql.ts";

/**
 * `settle_plain` of one record whose hold lay on one lease, its account's: what most single records are. Statements without
 * arrays, JSON and joins cost half as much. True, or false and nothing is written. Leases move under their budget's lock alone,
 * so that none is taken before the update. `owned`: the account's budget, then those of its months.
 */
export async function createSettleOne(db: Kysely<unknown>): Promise<void> {
  await sql`
    create or replace function settle_one(owned text[], on_lease text, from_at timestamptz, to_at timestamptz, request text,
      admitted timestamptz, ended timestamptz, account text, with_key text, by_replica text, of_model text, deploy text,
      instance text, epoch bigint, lease_list text[], from_source text, why_ended text, version bigint, rate_in bigint,
      rate_cached bigint, rate_out bigint, with_discount text, held bigint, price bigint, tokens_in bigint,
      tokens_cached bigint, tokens_out bigint, tokens_reasoning bigint, queued integer, first_byte integer, total integer)
    returns boolean language plpgsql set plan_cache_mode = 'force_generic_plan' as $$
    declare found_budgets integer; unkept integer; transaction text;
    begin
      select count(*), count(*) filter (where lim is not null and budget_id <> owned[1]) into found_budgets, unkept
      from (select budget_id, lim from budget where budget_id = any(owned) order by budget_id for update) b;
      if found_budgets <> cardinality(owned) or unkept > 0
        or exists (select from usage where request_id = request and admitted_at >= from_at and admitted_at <= to_at)
        or exists (select from delivered_count where request_id = request)
      then return false; end if;
      update lease set settled = settled + price
      where lease_id = on_lease and budget_id = owned[1] and closed_at is null and granted - settled >= price;
      if not found then return false; end if;
      insert into usage (request_id, attempt, admitted_at, account_id, key_id, replica_id, model, deploy_id, instance_id,
        node_epoch, lease_ids, hold, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens,
        source, end_reason, price_version, input_rate, cached_input_rate, output_rate, discount_id, cost, charge,
        queue_ms, first_byte_ms, total_ms, ended_at)
      values (request, 1, admitted, account, with_key, by_replica, of_model, deploy, instance, epoch, lease_list, held,
        tokens_in, tokens_cached, tokens_out, tokens_reasoning, from_source, why_ended, version, rate_in, rate_cached,
        rate_out, with_discount, price, price, queued, first_byte, total, ended);
      if price <> 0 then
        transaction := replace(gen_random_uuid()::text, '-', '');
        insert into ledger_entry (transaction_id, book, account_id, amount, kind, request_id, attempt, key_id, model,
          price_version, discount_id)
        values (transaction, 'customer_available', account, -price, 'capture', request, 1, with_key, of_model, version, with_discount),
          (transaction, 'customer_spent', account, price, 'capture', request, 1, with_key, of_model, version, with_discount);
      end if;
      update budget set spent = spent + price, leased = leased - case when budget_id = owned[1] then price else 0 end
      where budget_id = any(owned);
      insert into usage_month as m (${sql.raw(usageMonthColumns)})
      values (account, ${sql.raw(thisMonth)}, with_key, of_model, version, coalesce(with_discount, ''), deploy, 1,
        case when price <> 0 then 1 else 0 end, price, tokens_in + tokens_out, 0, 0, 0, 0, 0)
      ${sql.raw(addToMonth)};
      return true;
    end $$`.execute(db);
}
