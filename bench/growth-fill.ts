// Fills usage, ledger, sums and budgets with copies of records that the product settled, in statements of 100,000 records. The sums are
// those of `settle` (migrations/0072-settle-end-user-months.ts), and `checkBooks` compares them.
import type pg from "pg";

const chunk = 100_000;

export type Owners = "measured" | "others";

/** Call once after the product settled one record for each account. */
export async function fillTemplates(
  client: pg.Client,
  { measured, months }: { readonly measured: readonly string[]; readonly months: number },
): Promise<void> {
  await client.query(`
    create table bench_template as
    select row_number() over (partition by owners order by position) - 1 as n, * from (
      select case when account_id = any('{${measured.join()}}') then 'measured' else 'others' end as owners,
        right(account_id, -2)::integer as position, u.* from usage u) t`);
  await client.query(
    `create table bench_ledger as select * from ledger_entry where request_id in (select request_id from usage)`,
  );
  await client.query("analyze bench_template, bench_ledger");
  const { rows } = await client.query(
    "select attname from pg_attribute where attrelid = 'budget'::regclass and attnum > 0 and not attisdropped",
  );
  const columns = rows.map(({ attname }) => attname as string);
  const values = columns.map((name) => {
    if (name === "budget_id") return "left(budget_id, -6) || to_char(at, 'YYYYMM')";
    return name === "spent" || name === "leased" ? "0" : name;
  });
  await client.query(`
    insert into budget (${columns.join()}) select ${values.join()} from budget,
      (select now() at time zone 'UTC' - m * interval '1 month' as at from generate_series(1, ${months - 1}) m) earlier
    where scope in ('account_month', 'key_month')`);
}

/** Adds `count` records, evenly over the months in the order of time. A tenth is of one account. */
export async function fillUsage(
  client: pg.Client,
  owners: Owners,
  count: number,
  onProgress: (done: number) => void = () => {},
): Promise<void> {
  const { rows } = await client.query(
    "select attname from pg_attribute where attrelid = 'usage'::regclass and attnum > 0 and not attisdropped",
  );
  const columns = rows.map(({ attname }) => attname as string);
  const text = fillStatement(columns);
  for (let first = 0; first < count; first += chunk) {
    const last = Math.min(first + chunk, count) - 1;
    await client.query(text, [first, last, count, owners]);
    onProgress(last + 1);
  }
}

const shifted = (column: string) => `at + (t.${column} - t.admitted_at)`;
const own: Readonly<Record<string, string>> = {
  request_id: "left(md5($4 || i) || md5(i || $4), length(t.request_id))",
  admitted_at: "at",
  ended_at: shifted("ended_at"),
  settled_at: shifted("settled_at"),
};

/** Runs `fill` without the indexes of the large tables, which are then built at once: a fraction of the time. */
export async function withoutIndexes(client: pg.Client, fill: () => Promise<void>): Promise<void> {
  const { rows } = await client.query<{ drop: string; create: string }>(`
    select case when c.oid is null then format('drop index %s', i.indexrelid::regclass)
        else format('alter table %s drop constraint %I', i.indrelid::regclass, c.conname) end as drop,
      case when c.oid is null then pg_get_indexdef(i.indexrelid)
        else format('alter table %s add constraint %I %s', i.indrelid::regclass, c.conname, pg_get_constraintdef(c.oid)) end as create
    from pg_index i left join pg_constraint c on c.conindid = i.indexrelid and c.contype = 'p'
    where i.indrelid in ('usage'::regclass, 'ledger_entry'::regclass)`);
  for (const { drop } of rows) await client.query(drop);
  await fill();
  // For an index of a partitioned table, pg_get_indexdef names only the parent.
  for (const { create } of rows) await client.query(create.replace(" ON ONLY ", " ON "));
}

const fillStatement = (columns: readonly string[]) => `
  with bounds as (
    select date_trunc('month', now(), 'UTC') - interval '2 months' as start, (select count(*) from bench_template where owners = $4) as size
  ), made as materialized (
    select t.request_id as template, ${columns.map((name) => `${own[name] ?? `t.${name}`} as ${name}`).join()}
    from bounds cross join generate_series($1::bigint, $2::bigint) i
      cross join lateral (select start + (now() - interval '1 minute' - start) * (i::float8 / $3::bigint) as at) times
      join bench_template t on t.owners = $4
        and t.n = case when $4 = 'others' and i % 10 = 0 then 50 else (i * 7919) % size end
  ), written as (
    insert into usage (${columns.join()}) select ${columns.join()} from made
  ), entered as (
    insert into ledger_entry (transaction_id, book, account_id, amount, kind, request_id, attempt, key_id, model, price_version, discount_id,
      note, posted_at)
    select md5(m.request_id) || '-1', l.book, l.account_id, l.amount, l.kind, m.request_id, l.attempt, l.key_id, l.model, l.price_version,
      l.discount_id, l.note, m.settled_at
    from made m join bench_ledger l on l.request_id = m.template
  ), used as materialized (
    select account_id, (settled_at at time zone 'UTC')::date as day, end_user, model, key_id, count(*) as requests,
      sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens, sum(charge) as cost
    from made where end_user is not null group by 1, 2, 3, 4, 5
  ), by_day as (
    insert into usage_end_user as u (account_id, day, end_user, model, key_id, requests, input_tokens, output_tokens, cost)
    select * from used on conflict (account_id, day, end_user, model, key_id) do update set requests = u.requests + excluded.requests,
      input_tokens = u.input_tokens + excluded.input_tokens, output_tokens = u.output_tokens + excluded.output_tokens,
      cost = u.cost + excluded.cost
  ), by_month as (
    insert into usage_end_user_month as m (account_id, month, end_user, days, requests, input_tokens, output_tokens, cost)
    select account_id, date_part('year', day) * 12 + date_part('month', day) - 1, end_user,
      bit_or(1 << date_part('day', day)::integer - 1), sum(requests), sum(input_tokens), sum(output_tokens), sum(cost)
    from used group by 1, 2, 3
    on conflict (account_id, month, end_user) do update set days = m.days | excluded.days, requests = m.requests + excluded.requests,
      input_tokens = m.input_tokens + excluded.input_tokens, output_tokens = m.output_tokens + excluded.output_tokens,
      cost = m.cost + excluded.cost
  ), rolled as (
    insert into usage_day as d (account_id, month, day, key_id, model, price_version, discount_id, deploy_id, records, requests, entries, cost,
      tokens, output_tokens, gpu_ms, characters, audio_ms, images, image_milli)
    select account_id, date_part('year', settled_on) * 12 + date_part('month', settled_on) - 1, date_part('day', settled_on), key_id, model,
      price_version, coalesce(discount_id, ''), max(deploy_id), count(*), count(*), count(*), sum(charge), sum(input_tokens + output_tokens),
      sum(output_tokens), 0, 0, 0, 0, 0
    from (select made.*, (settled_at at time zone 'UTC')::date as settled_on from made) posted
    group by account_id, settled_on, key_id, model, price_version, coalesce(discount_id, '')
    on conflict (account_id, month, day, key_id, model, price_version, discount_id) do update set records = d.records + excluded.records,
      requests = d.requests + excluded.requests, entries = d.entries + excluded.entries, cost = d.cost + excluded.cost,
      tokens = d.tokens + excluded.tokens, output_tokens = d.output_tokens + excluded.output_tokens
  ), spent as (
    select id, sum(charge) as sum from made cross join lateral unnest(usage_budgets(account_id, key_id, admitted_at)) id group by 1
  )
  update budget set spent = budget.spent + spent.sum from spent where budget.budget_id = spent.id`;
