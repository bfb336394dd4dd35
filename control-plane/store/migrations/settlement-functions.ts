import { type Kysely, sql } from "kysely";
import { createSettleOne } from "./settle-one-function.ts";
import { addEntries, addRecords, flipRecords } from "./usage-month-sql.ts";

/**
 * What store/settlement-rows.ts and store/settle-plain.ts call, each one round trip, planned once per connection. Every statement of a function sees what was committed when that statement
 * began. Made by the first migration that has their tables and again by each that changes them: a body is read when it runs.
 */
export async function createSettlementFunctions(db: Kysely<unknown>): Promise<void> {
  await createSettlePlain(db);
  await createSettleOne(db);
  await sql`
    create or replace function settle_find(budget_ids text[], wanted_leases text[], requests text[], from_at timestamptz, to_at timestamptz)
    returns json language plpgsql set plan_cache_mode = 'force_generic_plan' as $$
    declare wanted text[]; budgets json; leases json; counts json; found_rows json;
    begin
      -- Also those that an earlier attempt lay on: what it took goes back to where it came from.
      wanted_leases := array(select unnest(wanted_leases) union select unnest(u.lease_ids) from usage u
        where u.request_id = any(requests) and u.admitted_at >= from_at and u.admitted_at <= to_at);
      wanted := budget_ids || array(select l.budget_id from lease l where l.lease_id = any(wanted_leases));
      select json_agg(b) into budgets from (
        select budget_id, lim::text, spent::text, leased::text from budget
        where budget_id = any(wanted) order by budget_id for update) b;
      if cardinality(wanted_leases) > 0 then
        select json_agg(l) into leases from (
          select lease_id, budget_id, granted::text, settled::text, closed_at is null as is_open from lease
          where lease_id = any(wanted_leases) order by lease_id for update) l;
      end if;
      select json_agg(c) into counts from (
        select request_id, attempt, output_tokens from delivered_count where request_id = any(requests)) c;
      select json_agg(u) into found_rows from (
        select request_id, attempt, round(extract(epoch from admitted_at) * 1000)::bigint as admitted_ms, account_id, key_id,
          model, lease_ids, hold::text, input_tokens, cached_input_tokens, output_tokens, input_rate::text,
          cached_input_rate::text, output_rate::text, price_version::text, discount_id, cost::text, charge::text, voided
        from usage where request_id = any(requests) and admitted_at >= from_at and admitted_at <= to_at) u;
      return json_build_object('budgets', budgets, 'leases', leases, 'counts', counts, 'rows', found_rows);
    end $$`.execute(db);
  await sql`
    create or replace function settle_write(added json, changed json, entries json, budgets json, leases json)
    returns integer language plpgsql set plan_cache_mode = 'force_generic_plan' as $$
    declare inserted integer := 0;
    begin
      if added is not null then
        insert into usage (request_id, attempt, admitted_at, account_id, key_id, replica_id, model, deploy_id, instance_id,
          node_epoch, lease_ids, token_budget, hold, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens, gpu_ms,
          source,
          end_reason,
          price_version, input_rate, cached_input_rate, output_rate, discount_id, cost, charge, voided, queue_ms,
          first_byte_ms, total_ms, ended_at, characters, audio_ms, images, image_pixel_steps, items, character_rate,
          audio_rate, image_rate, image_unit)
        select request_id, attempt, admitted_at, account_id, key_id, replica_id, model, deploy_id, instance_id,
          node_epoch, lease_ids, token_budget, hold, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens, gpu_ms,
          source,
          end_reason,
          price_version, input_rate, cached_input_rate, output_rate, discount_id, cost, charge, voided, queue_ms,
          first_byte_ms, total_ms, ended_at, coalesce(characters, 0), coalesce(audio_ms, 0), coalesce(images, 0),
          coalesce(image_pixel_steps, 0), coalesce(items, 0), coalesce(character_rate, 0), coalesce(audio_rate, 0),
          coalesce(image_rate, 0), coalesce(image_unit, 0)
        from json_populate_recordset(null::usage, added)
        on conflict (request_id, attempt, admitted_at) do nothing;
        get diagnostics inserted = row_count;
        -- The capture and the loss of a record are a ledger transaction each, of two entries that sum to 0.
        with moves as materialized (
          select r.*, m.kind, m.amount, m.taken, m.given, m.note, replace(gen_random_uuid()::text, '-', '') as transaction_id
          from json_to_recordset(added) as r (request_id text, attempt integer, account_id text, key_id text, model text,
            price_version bigint, discount_id text, cost bigint, charge bigint, loss_reason text)
          cross join lateral (values
            ('capture', r.charge, 'customer_available', 'customer_spent', null),
            ('loss', r.cost - r.charge, 'platform_revenue', 'platform_loss', r.loss_reason)
          ) as m (kind, amount, taken, given, note)
          where m.amount <> 0)
        insert into ledger_entry (transaction_id, book, account_id, amount, kind, request_id, attempt, key_id, model,
          price_version, discount_id, note)
        select transaction_id, side.book, account_id, side.amount, kind, request_id, attempt, key_id, model, price_version,
          discount_id, note
        from moves cross join lateral (values (taken, -amount), (given, amount)) as side (book, amount);
        ${sql.raw(addRecords("json_populate_recordset(null::usage, added)"))};
      end if;
      if changed is not null then
        ${sql.raw(flipRecords("json_populate_recordset(null::usage, changed)"))};
        update usage set charge = m.charge, voided = m.voided
        from json_to_recordset(changed)
          as m (request_id text, attempt integer, admitted_at timestamptz, charge bigint, voided boolean)
        where usage.request_id = m.request_id and usage.attempt = m.attempt and usage.admitted_at = m.admitted_at;
      end if;
      if entries is not null then
        insert into ledger_entry (transaction_id, book, account_id, amount, kind, request_id, attempt, key_id, model,
          price_version, discount_id, note)
        select transaction_id, book, account_id, amount, kind, request_id, attempt, key_id, model, price_version, discount_id,
          note from json_populate_recordset(null::ledger_entry, entries);
        ${sql.raw(addEntries("json_populate_recordset(null::ledger_entry, entries)"))};
      end if;
      if budgets is not null then
        update budget set spent = budget.spent + m.spent, leased = budget.leased + m.leased
        from json_to_recordset(budgets) as m (budget_id text, spent bigint, leased bigint)
        where budget.budget_id = m.budget_id;
      end if;
      if leases is not null then
        update lease set settled = lease.settled + m.settled
        from json_to_recordset(leases) as m (lease_id text, settled bigint)
        where lease.lease_id = m.lease_id and lease.closed_at is null;
      end if;
      return inserted;
    end $$`.execute(db);
}

/**
 * Records that need no thought: first and only attempts, within their holds, on open leases that have room for all of them.
 * Writes what `post` would answer about them and says true, or says false and has written nothing. Records come as columns;
 * what many of them share comes once, as a lot; what budgets and leases pay comes summed.
 */
async function createSettlePlain(db: Kysely<unknown>): Promise<void> {
  // Types are not replaced; this one never changed.
  await sql`
    do $$ begin if to_regtype('settle_lot') is null then
    create type settle_lot as (n integer, account_id text, key_id text, replica_id text, model text, deploy_id text,
      instance_id text, node_epoch bigint, lease_ids text[], source text, end_reason text, price_version bigint,
      input_rate bigint, cached_input_rate bigint, output_rate bigint, discount_id text, budget_ids text[]);
    end if; end $$`.execute(db);
  await sql`
    create or replace function settle_plain(lots_json json, budget_ids text[], budget_costs bigint[], wanted_leases text[],
      lease_costs bigint[], from_at timestamptz, to_at timestamptz,
      requests text[], lot_numbers integer[], admitted_ms bigint[], ended_ms bigint[], holds bigint[], costs bigint[],
      inputs bigint[], cached_inputs bigint[], outputs bigint[], reasonings bigint[],
      queue integer[], first_byte integer[], total integer[])
    returns boolean language plpgsql set plan_cache_mode = 'force_generic_plan' as $$
    declare lots settle_lot[]; found_budgets text[]; limited text[]; owners text[];
    begin
      lots := array(select l from json_populate_recordset(null::settle_lot, lots_json) l);
      -- The order of every lock: budgets by id, then leases by id. Only then is looked whether a request is known.
      select array_agg(b.budget_id), array_agg(b.budget_id) filter (where b.lim is not null) into found_budgets, limited from (
        select budget_id, lim from budget
        where budget_id = any(budget_ids || array(select l.budget_id from lease l where l.lease_id = any(wanted_leases)))
        order by budget_id for update) b;
      select array_agg(l.budget_id) into owners from (
        select lease.budget_id from unnest(wanted_leases, lease_costs) as w (lease_id, cost) join lease using (lease_id)
        where lease.closed_at is null and lease.granted - lease.settled >= w.cost
        order by lease.lease_id for update of lease) l;
      -- A lease that is gone or has not room for all, or a budget that is not there.
      if cardinality(owners) is distinct from cardinality(wanted_leases) or not budget_ids <@ found_budgets
        -- A budget with a limit that no lease keeps.
        or exists (select from unnest(limited) as id where id = any(budget_ids) and id <> all(owners))
        or exists (select from unnest(owners) as id where id <> all(budget_ids) and id not like 'jwt/%')
        or exists (select from usage where request_id = any(requests) and admitted_at >= from_at and admitted_at <= to_at)
        or exists (select from delivered_count where request_id = any(requests))
      then return false; end if;
      -- What holds for all of them together may not hold for each lot.
      if cardinality(lots) + cardinality(wanted_leases) > 2 and (
        exists (
          select from unnest(lots) l, unnest(l.budget_ids) as id where id = any(limited)
            and not exists (select from lease where lease.lease_id = any(l.lease_ids) and lease.budget_id = id))
        -- Two leases on one budget, or one on a budget of somebody else.
        or exists (
          select from unnest(lots) l join lease on lease.lease_id = any(l.lease_ids)
          group by l.n, l.budget_ids having count(*) <> count(distinct lease.budget_id)
            or not array_agg(lease.budget_id) filter (where lease.budget_id not like 'jwt/%') <@ l.budget_ids))
      then return false; end if;

      with lot as materialized (
        select l.*, (select budget_id from lease where lease_id = any(l.lease_ids) and budget_id like 'jwt/%' limit 1) as token_budget
        from unnest(lots) l
      ), added as (
        insert into usage (request_id, attempt, admitted_at, account_id, key_id, replica_id, model, deploy_id, instance_id,
          node_epoch, lease_ids, token_budget, hold, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens,
          source, end_reason, price_version, input_rate, cached_input_rate, output_rate, discount_id, cost, charge,
          queue_ms, first_byte_ms, total_ms, ended_at)
        select r.request_id, 1, to_timestamp(r.admitted_ms / 1000.0), account_id, key_id, replica_id, model, deploy_id,
          instance_id, node_epoch, lease_ids, token_budget, r.hold, r.input, r.cached_input, r.output, r.reasoning,
          source, end_reason, price_version, input_rate, cached_input_rate, output_rate, discount_id, r.cost, r.cost,
          r.queue_ms, r.first_byte_ms, r.total_ms, to_timestamp(r.ended_ms / 1000.0)
        from unnest(requests, lot_numbers, admitted_ms, ended_ms, holds, costs, inputs, cached_inputs, outputs, reasonings,
            queue, first_byte, total)
          as r (request_id, n, admitted_ms, ended_ms, hold, cost, input, cached_input, output, reasoning, queue_ms,
            first_byte_ms, total_ms)
        join lot on lot.n = r.n
        returning *
      ), rolled as (
        ${sql.raw(addRecords("added"))}
      ), moves as materialized (
        select *, replace(gen_random_uuid()::text, '-', '') as transaction_id from added where charge <> 0
      ), entered as (
        insert into ledger_entry (transaction_id, book, account_id, amount, kind, request_id, attempt, key_id, model,
          price_version, discount_id)
        select transaction_id, side.book, account_id, side.sign * charge, 'capture', request_id, 1, key_id, model,
          price_version, discount_id
        from moves, (values ('customer_available', -1), ('customer_spent', 1)) as side (book, sign)
      ), paid as (
        -- A budget that only leases name, a token's, has spent what they did.
        update budget set spent = budget.spent + coalesce(m.own, m.leased), leased = budget.leased - coalesce(m.leased, 0)
        from (
          select budget_id, sum(own)::bigint as own, sum(leased)::bigint as leased from (
            select budget_id, own, null as leased from unnest(budget_ids, budget_costs) as own (budget_id, own)
            union all
            select lease.budget_id, null, w.cost from unnest(wanted_leases, lease_costs) as w (lease_id, cost) join lease using (lease_id)
          ) part group by 1
        ) m where budget.budget_id = m.budget_id
      )
      update lease set settled = lease.settled + w.cost from unnest(wanted_leases, lease_costs) as w (lease_id, cost)
      where lease.lease_id = w.lease_id;
      return true;
    end $$`.execute(db);
}
