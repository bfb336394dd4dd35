import { type Kysely, sql } from "kysely";

/** What store/settlement-rows.ts calls. Every statement of a function sees what was committed when that statement began. */
export async function createSettlementFunctions(db: Kysely<unknown>): Promise<void> {
  await sql`
    create function settle_find(budget_ids text[], wanted_leases text[], requests text[], from_at timestamptz, to_at timestamptz)
    returns json language plpgsql as $$
    declare budgets json; leases json; counts json; found_rows json;
    begin
      select json_agg(b) into budgets from (
        select budget_id, lim::text, spent::text, leased::text from budget
        where budget_id = any(budget_ids)
          or budget_id in (select l.budget_id from lease l where l.lease_id = any(wanted_leases))
        order by budget_id for update) b;
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
    create function settle_write(added json, changed json, entries json, budgets json, leases json)
    returns integer language plpgsql as $$
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
      end if;
      if changed is not null then
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
