import { type Kysely, sql } from "kysely";

/** Notes which usage records retention has removed, so that sums are not computed again without them. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql.raw(text).execute(db);
}

const text = `
-- At most one row.
create table usage_retention (
  expired_before timestamptz not null,
  is_only boolean primary key default true check (is_only)
);

-- Computes all sums again, for the case that they differ from ledger and usage.
create or replace function rebuild_usage_days() returns void language plpgsql as $$
declare expired timestamptz;
begin
  select expired_before into expired from usage_retention;
  if expired is not null then
    raise exception 'usage records from before % have expired, so sums cannot be computed from them', expired;
  end if;
  lock table usage_undivided, usage, ledger_entry, usage_day, usage_token, usage_end_user, usage_end_user_month, end_user_unsummed in share row exclusive mode;
  delete from usage_day;
  delete from usage_undivided;
  delete from usage_token;
  delete from usage_end_user;
  delete from usage_end_user_month;
  delete from end_user_unsummed;
  insert into usage_day (account_id, month, day, key_id, model, price_version, discount_id, deploy_id, records, requests, entries,
    cost, tokens, output_tokens, gpu_ms, characters, audio_ms, images, image_milli)
  select d.account_id, d.month, d.day, d.key_id, d.model, d.price_version, d.discount_id, d.deploy_id, d.records, d.requests, d.entries,
    d.cost, d.tokens, d.output_tokens, d.gpu_ms, d.characters, d.audio_ms, d.images, d.image_milli
  from (select account_id from usage union select account_id from ledger_entry where account_id is not null) a,
    usage_days_of(a.account_id, '-infinity', 'infinity') d;
  insert into usage_token (account_id, day, token_budget, key_id, requests, input_tokens, output_tokens, cost)
  select t.* from (select distinct account_id from usage where token_budget is not null) a,
    usage_tokens_of(a.account_id, '-infinity', 'infinity') t;
  insert into usage_end_user (account_id, day, end_user, model, key_id, requests, input_tokens, output_tokens, cost)
  select account_id, (at at time zone 'UTC')::date, end_user, model, key_id, sum(requests), sum(input), sum(output), sum(cost)
  from (
    select account_id, settled_at as at, end_user, model, key_id, 1 as requests, input_tokens as input, output_tokens as output, 0 as cost
    from usage where end_user is not null and not voided
    union all
    select l.account_id, posted_at, end_user, u.model, u.key_id, 0, 0, 0, amount
    from ledger_entry l join usage u using (request_id, attempt)
    where book = 'customer_spent' and kind <> 'invoice' and end_user is not null
  ) posted group by 1, 2, 3, 4, 5;
  insert into usage_end_user_month (account_id, month, end_user, days, requests, input_tokens, output_tokens, cost)
  select account_id, date_part('year', day) * 12 + date_part('month', day) - 1, end_user,
    bit_or(1 << date_part('day', day)::integer - 1), sum(requests), sum(input_tokens), sum(output_tokens), sum(cost)
  from usage_end_user group by 1, 2, 3;
end $$;
`;
