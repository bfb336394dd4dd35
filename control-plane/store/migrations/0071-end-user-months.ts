import { type Kysely, sql } from "kysely";

/** Sums usage of end users by UTC month, for reports of the highest cost. Sums of before are added later (`sum_end_user_month`). */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql.raw(tables).execute(db);
  await sql.raw(sums).execute(db);
}

const tables = `
create table usage_end_user_month (
  account_id text not null,
  month integer not null,
  end_user text not null,
  days integer not null,
  requests bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cost bigint not null,
  primary key (account_id, month, end_user)
) with (fillfactor = 50);

create table end_user_unsummed (
  account_id text not null,
  month integer not null,
  primary key (account_id, month)
);
-- A name may be stored before the end of a month, and its usage after it.
insert into end_user_unsummed (account_id, month) select account_id, month from end_user_month
  union select account_id, month + 1 from end_user_month;
`;

const sums = `
-- Sums the end users of a month by their days, once. A settlement changes days and months by the same amounts, so their difference is
-- constant: it is computed without a lock, and the account's settlements wait only while it is written.
create function sum_end_user_month(of_account text, of_month integer) returns void language plpgsql as $$
declare
  from_day date := make_date(of_month / 12, of_month % 12 + 1, 1); missing jsonb;
begin
  delete from end_user_unsummed where account_id = of_account and month = of_month;
  if not found then return; end if;
  select jsonb_agg(m) into missing from (
    select of_account as account_id, of_month as month, end_user, bit_or(days) as days, sum(requests) as requests,
      sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens, sum(cost) as cost
    from (
      select end_user, 1 << date_part('day', day)::integer - 1 as days, requests, input_tokens, output_tokens, cost
      from usage_end_user where account_id = of_account and day >= from_day and day < from_day + interval '1 month'
      union all
      select end_user, days, -requests, -input_tokens, -output_tokens, -cost
      from usage_end_user_month where account_id = of_account and month = of_month
    ) part group by end_user) m;
  -- Settlements of the account hold it while they write sums.
  perform from budget where budget_id = 'account/' || of_account for update;
  insert into usage_end_user_month as m (account_id, month, end_user, days, requests, input_tokens, output_tokens, cost)
  select account_id, month, end_user, days, requests, input_tokens, output_tokens, cost
  from jsonb_populate_recordset(null::usage_end_user_month, missing)
  on conflict (account_id, month, end_user) do update set
    days = m.days | excluded.days,
    requests = m.requests + excluded.requests,
    input_tokens = m.input_tokens + excluded.input_tokens,
    output_tokens = m.output_tokens + excluded.output_tokens,
    cost = m.cost + excluded.cost;
end $$;

-- Computes all sums again, for the case that they differ from ledger and usage.
create or replace function rebuild_usage_days() returns void language sql as $$
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
$$;
`;
