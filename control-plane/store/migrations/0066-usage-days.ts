import { type Kysely, sql } from "kysely";

/**
 * Sums usage by UTC day instead of by month, and by scoped token. The rows of months become rows of day 0, which control planes move to the
 * days (`divide_usage_days`). The release before this one reads the view `usage_month`. Drops what only releases before 0044 called.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`drop function settle_plain, settle_one, settle_find, settle_write, rebuild_usage_months`.execute(db);
  await sql`drop type settle_lot`.execute(db);
  await sql`update schema_requirement set migration = '0044-settle'`.execute(db);
  await sql.raw(tables).execute(db);
  await sql.raw(records).execute(db);
  await sql.raw(divide).execute(db);
}

const tables = `
alter table usage_month rename to usage_day;
alter table usage_day add day smallint not null default 0, add requests bigint not null default 0,
  add output_tokens bigint not null default 0;
alter table usage_day drop constraint usage_month_pkey,
  add primary key (account_id, month, day, key_id, model, price_version, discount_id);

create view usage_month as
select account_id, month, key_id, model, price_version, discount_id, max(deploy_id) as deploy_id, sum(records) as records,
  sum(entries) as entries, sum(cost) as cost, sum(tokens) as tokens, sum(gpu_ms) as gpu_ms, sum(characters) as characters,
  sum(audio_ms) as audio_ms, sum(images) as images, sum(image_milli) as image_milli
from usage_day group by account_id, month, key_id, model, price_version, discount_id;

create table usage_undivided (
  account_id text not null,
  month integer not null,
  through smallint not null default 0,
  primary key (account_id, month)
);
insert into usage_undivided (account_id, month) select distinct account_id, month from usage_day;

create table usage_token (
  account_id text not null,
  day date not null,
  token_budget text not null,
  key_id text not null,
  requests bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cost bigint not null,
  primary key (account_id, day, token_budget)
) with (fillfactor = 50);
`;

const records = `
-- Rows of usage_day as computed from ledger and usage: money by time of posting, units by time of first settlement.
create function usage_days_of(of_account text, from_at timestamptz, to_at timestamptz) returns table (account_id text, month integer,
  day smallint, key_id text, model text, price_version bigint, discount_id text, deploy_id text, records bigint, requests bigint,
  entries bigint, cost bigint, tokens bigint, output_tokens bigint, gpu_ms bigint, characters bigint, audio_ms bigint, images bigint,
  image_milli bigint) stable language sql as $$
  select of_account, date_part('year', at) * 12 + date_part('month', at) - 1, date_part('day', at),
    p.key_id, p.model, p.price_version, p.discount_id, max(p.deploy_id), sum(p.records), sum(p.requests), sum(p.entries), sum(p.cost),
    sum(p.tokens), sum(p.output_tokens), sum(p.gpu_ms), sum(p.characters), sum(p.audio_ms), sum(p.images), sum(p.image_milli)
  from (
    select (settled_at at time zone 'UTC')::date as at, u.key_id, u.model, u.price_version, coalesce(u.discount_id, '') as discount_id,
      u.deploy_id, 1 as records, case when u.gpu_ms = 0 then 1 else 0 end as requests, 0 as entries, 0 as cost,
      u.input_tokens + u.output_tokens as tokens, u.output_tokens, u.gpu_ms, u.characters, u.audio_ms, u.images,
      case when image_unit > 0 and image_pixel_steps > 0 then image_pixel_steps * 1000 / image_unit
        else u.images * 1000 end as image_milli
    from usage u where u.account_id = of_account and not voided and settled_at >= from_at and settled_at < to_at
    union all
    select (posted_at at time zone 'UTC')::date, coalesce(l.key_id, ''), coalesce(l.model, ''), coalesce(l.price_version, 0),
      coalesce(l.discount_id, ''), '', 0, 0, 1, amount, 0, 0, 0, 0, 0, 0, 0
    from ledger_entry l where l.account_id = of_account and book = 'customer_spent' and kind <> 'invoice'
      and posted_at >= from_at and posted_at < to_at
  ) p group by at, 4, 5, 6, 7
$$;

-- Rows of usage_token as computed from ledger and usage.
create function usage_tokens_of(of_account text, from_at timestamptz, to_at timestamptz) returns table (account_id text, day date,
  token_budget text, key_id text, requests bigint, input_tokens bigint, output_tokens bigint, cost bigint) stable language sql as $$
  select of_account, at, p.token_budget, max(p.key_id), sum(p.requests), sum(p.input), sum(p.output), sum(p.cost)
  from (
    select (settled_at at time zone 'UTC')::date as at, u.token_budget, u.key_id, 1 as requests, u.input_tokens as input,
      u.output_tokens as output, 0 as cost
    from usage u where u.account_id = of_account and u.token_budget is not null and not voided
      and settled_at >= from_at and settled_at < to_at
    union all
    -- A record and its capture are posted at the same time.
    select (posted_at at time zone 'UTC')::date, u.token_budget, u.key_id, 0, 0, 0, amount
    from ledger_entry l join usage u on u.request_id = l.request_id and u.attempt = l.attempt
    where l.account_id = of_account and book = 'customer_spent' and kind = 'capture' and posted_at >= from_at and posted_at < to_at
      and u.account_id = of_account and u.token_budget is not null and settled_at >= from_at and settled_at < to_at
    union all
    -- Few; their records may be of any day. Without the limit, all records of all accounts could be read for them.
    select (posted_at at time zone 'UTC')::date, u.token_budget, u.key_id, 0, 0, 0, amount
    from ledger_entry l cross join lateral (
      select token_budget, key_id from usage where request_id = l.request_id and attempt = l.attempt limit 1) u
    where l.account_id = of_account and book = 'customer_spent' and kind not in ('capture', 'invoice') and u.token_budget is not null
      and posted_at >= from_at and posted_at < to_at
  ) p group by at, p.token_budget
$$;

-- Computes all sums again, for the case that they differ from ledger and usage.
create function rebuild_usage_days() returns void language sql as $$
  lock table usage_undivided, usage, ledger_entry, usage_day, usage_token, usage_end_user in share row exclusive mode;
  delete from usage_day;
  delete from usage_undivided;
  delete from usage_token;
  delete from usage_end_user;
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
$$;
`;

const divide = `
-- Moves sums of a month to its days, in order, until about 20,000 records were read or the month is divided. Returns whether days remain. The
-- month's sum never changes: what a day receives leaves the row of day 0.
-- A settlement changes records and sums by the same amounts, so their difference is constant: what the records came to before sums were by
-- day. It is computed without a lock, and the account's settlements wait only while it is written.
create function divide_usage_days(of_account text, of_month integer) returns boolean language plpgsql as $$
declare
  one_day smallint; from_at timestamptz; to_at timestamptz; is_last boolean := false; found_days jsonb; found_tokens jsonb;
  moved jsonb := '[]'; moved_tokens jsonb := '[]'; read_records numeric := 0;
begin
  while read_records < 20000 and not is_last loop
    update usage_undivided set through = through + 1 where account_id = of_account and month = of_month returning through into one_day;
    if not found then return false; end if;
    from_at := make_timestamptz(of_month / 12, of_month % 12 + 1, one_day, 0, 0, 0, 'UTC');
    to_at := from_at + interval '24 hours';
    is_last := date_part('day', to_at at time zone 'UTC') = 1;
    select jsonb_agg(d), coalesce(sum(d.read), 0) + read_records into found_days, read_records from (
      select account_id, month, day, key_id, model, price_version, discount_id, max(deploy_id) as deploy_id, sum(records) as records,
        sum(requests) as requests, sum(entries) as entries, sum(cost) as cost, sum(tokens) as tokens, sum(output_tokens) as output_tokens,
        sum(gpu_ms) as gpu_ms, sum(characters) as characters, sum(audio_ms) as audio_ms, sum(images) as images,
        sum(image_milli) as image_milli, sum(read) as read
      from (
        select account_id, month, day, key_id, model, price_version, discount_id, deploy_id, records, requests, entries, cost, tokens,
          output_tokens, gpu_ms, characters, audio_ms, images, image_milli, records as read
        from usage_days_of(of_account, from_at, to_at)
        union all
        select account_id, month, day, key_id, model, price_version, discount_id, deploy_id, -records, -requests, -entries, -cost, -tokens,
          -output_tokens, -gpu_ms, -characters, -audio_ms, -images, -image_milli, 0
        from usage_day where account_id = of_account and month = of_month and day = one_day
      ) part group by account_id, month, day, key_id, model, price_version, discount_id) d;
    select jsonb_agg(t) into found_tokens from (
      select account_id, day, token_budget, max(key_id) as key_id, sum(requests) as requests, sum(input_tokens) as input_tokens,
        sum(output_tokens) as output_tokens, sum(cost) as cost
      from (
        select * from usage_tokens_of(of_account, from_at, to_at)
        union all
        select account_id, day, token_budget, key_id, -requests, -input_tokens, -output_tokens, -cost
        from usage_token where account_id = of_account and day = (from_at at time zone 'UTC')::date
      ) part group by account_id, day, token_budget
      having sum(requests) <> 0 or sum(input_tokens) <> 0 or sum(output_tokens) <> 0 or sum(cost) <> 0) t;
    moved := moved || coalesce(found_days, '[]');
    moved_tokens := moved_tokens || coalesce(found_tokens, '[]');
  end loop;

  -- Settlements of the account hold it while they write sums.
  perform from budget where budget_id = 'account/' || of_account for update;
  insert into usage_day as d (account_id, month, day, key_id, model, price_version, discount_id, deploy_id, records, requests, entries,
    cost, tokens, output_tokens, gpu_ms, characters, audio_ms, images, image_milli)
  select account_id, month, day, key_id, model, price_version, discount_id, deploy_id, records, requests, entries, cost, tokens,
    output_tokens, gpu_ms, characters, audio_ms, images, image_milli from jsonb_populate_recordset(null::usage_day, moved)
  union all
  select account_id, month, 0, key_id, model, price_version, discount_id, max(deploy_id), -sum(records), -sum(requests), -sum(entries),
    -sum(cost), -sum(tokens), -sum(output_tokens), -sum(gpu_ms), -sum(characters), -sum(audio_ms), -sum(images), -sum(image_milli)
  from jsonb_populate_recordset(null::usage_day, moved)
  group by account_id, month, key_id, model, price_version, discount_id
  on conflict (account_id, month, day, key_id, model, price_version, discount_id) do update set
    deploy_id = greatest(d.deploy_id, excluded.deploy_id),
    records = d.records + excluded.records,
    requests = d.requests + excluded.requests,
    entries = d.entries + excluded.entries,
    cost = d.cost + excluded.cost,
    tokens = d.tokens + excluded.tokens,
    output_tokens = d.output_tokens + excluded.output_tokens,
    gpu_ms = d.gpu_ms + excluded.gpu_ms,
    characters = d.characters + excluded.characters,
    audio_ms = d.audio_ms + excluded.audio_ms,
    images = d.images + excluded.images,
    image_milli = d.image_milli + excluded.image_milli;
  insert into usage_token as t (account_id, day, token_budget, key_id, requests, input_tokens, output_tokens, cost)
  select account_id, day, token_budget, key_id, requests, input_tokens, output_tokens, cost
  from jsonb_populate_recordset(null::usage_token, moved_tokens)
  on conflict (account_id, day, token_budget) do update set
    requests = t.requests + excluded.requests,
    input_tokens = t.input_tokens + excluded.input_tokens,
    output_tokens = t.output_tokens + excluded.output_tokens,
    cost = t.cost + excluded.cost;
  if is_last then
    delete from usage_day where account_id = of_account and month = of_month and day = 0;
    delete from usage_undivided where account_id = of_account and month = of_month;
  end if;
  return not is_last;
end $$;
`;
