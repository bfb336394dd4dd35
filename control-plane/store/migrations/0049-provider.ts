import { type Kysely, sql } from "kysely";

/** What the providers of external servers are paid, with a limit per month and day. Their budgets and leases are those of requests. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table provider (
      deploy_id text primary key references deployment on delete cascade,
      input_rate bigint not null check (input_rate >= 0),
      cached_input_rate bigint not null check (cached_input_rate >= 0),
      output_rate bigint not null check (output_rate >= 0),
      request_rate bigint not null check (request_rate >= 0),
      month_limit bigint check (month_limit >= 0),
      day_limit bigint check (day_limit >= 0)
    )`.execute(db);
  await sql`
    alter table budget drop constraint budget_scope_check,
      add constraint budget_scope_check check (scope in ('account', 'account_month', 'key_month', 'jwt', 'provider_month',
        'provider_day')) not valid`.execute(db);
  await sql.raw(settleProviders).execute(db);
}

const settleProviders = `
-- Adds what providers are paid for records that settle() found new; returns its reply. Every attempt counts, voided ones as well: the
-- provider ran each. A cost lies on the leases of its record while they are open. Locks budgets, then leases, by id, after those of
-- settle(): the ids of providers' budgets follow all others.
create function settle_providers(reply json, costs json) returns json language plpgsql as $$
declare
  repeated integer[] := array(select json_array_elements_text(case json_typeof(reply->'repeated') when 'array'
    then reply->'repeated' else '[]' end)::integer);
begin
  perform from budget where budget_id in (
      select unnest(array[c.month, c.day]) from json_to_recordset(costs) c (month text, day text))
    order by budget_id for update;
  perform from lease where lease_id in (
      select unnest(c.leases) from json_to_recordset(costs) c (leases text[]))
    order by lease_id for update;
  with cost as (
    select c.* from json_to_recordset(costs) c (position integer, month text, day text, leases text[], amount bigint)
    where c.position <> all(repeated)
  ), by_lease as (
    select lease_id, sum(amount) as amount from cost, unnest(leases) lease_id group by lease_id
  ), taken as (
    update lease set settled = lease.settled + least(b.amount, greatest(lease.granted - lease.settled, 0))
    from by_lease b where lease.lease_id = b.lease_id and lease.closed_at is null
    returning lease.budget_id, new.settled - old.settled as amount
  ), moved as (
    select budget_id, sum(spent) as spent, sum(leased) as leased from (
      select unnest(array[month, day]) as budget_id, amount as spent, 0 as leased from cost
      union all select budget_id, 0, amount from taken) m group by budget_id
  )
  update budget set spent = budget.spent + m.spent, leased = budget.leased - m.leased
  from moved m where budget.budget_id = m.budget_id;
  return reply;
end $$;
`;
