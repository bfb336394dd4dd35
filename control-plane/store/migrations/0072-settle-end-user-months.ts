import { type Kysely, sql } from "kysely";

/** `settle` of 0067 with the sums of 0071. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql.raw(settle).execute(db);
}

const settle = `
-- Settles records and delivered counts. Level-triggered: from all attempts of a request it computes what the ledger should hold, and
-- posts the difference, so order, repetition and late facts end in the same state. Of several attempts the highest one is charged:
-- at most its cost, its hold, what was delivered of it, and what its leases and the limits leave. The rest is the platform's loss.
-- test/fakes/post.ts is the specification.
--
-- Columns that records share arrive once, as a lot; lot_numbers says which lot a record belongs to (1 is the first). All records of a
-- lot are admitted in one UTC month. The lot of a lone record holds all its columns; the arrays from admitted_ms to totals are null then.
-- Attempts of the same requests are looked up among rows admitted between from_at and to_at. If one was charged to other leases than
-- these records, looks_back must be set; else the call fails with 40001, as it does when the same record is settled at the same time.
--
-- Returns null if every record was new, on time and paid in full. Otherwise: repeated, the positions of records that were settled before;
-- late, the number of new records whose leases were closed; losses, by record.
create or replace function settle(lots_json json[], lot_numbers integer[], requests text[], attempts integer[], admitted_ms bigint[],
  ended_ms bigint[], holds bigint[], costs bigint[], inputs bigint[], cached_inputs bigint[], outputs bigint[],
  reasonings bigint[], queues integer[], first_bytes integer[], totals integer[], counts_json json,
  from_at timestamptz, to_at timestamptz, looks_back boolean)
returns json language plpgsql set plan_cache_mode = 'force_generic_plan' as $$
declare
  -- First the lots of new records, then each known row as a lot of its own.
  lots usage[]; lot usage; lot_count integer; known usage[]; counted delivered_count[]; repeated integer[];
  all_requests text[] := requests; given record; counted_budgets text[]; wanted_budgets text[]; wanted_leases text[];
  budget_ids text[]; limits bigint[]; spents bigint[]; leaseds bigint[];
  lease_names text[]; lease_budgets text[]; granteds bigint[]; settleds bigint[]; opens boolean[];
  -- Budgets of lot n, and its lease on each: positions scope_ends[n - 1] + 1 to scope_ends[n] of two arrays.
  scope_ends integer[]; scope_budgets integer[]; scope_leases integer[]; is_late boolean[];
  id text; n integer; b integer; l integer; s integer; first_scope integer; last_scope integer; has_open boolean; has_moved boolean := false; has_users boolean := false;
  has_tokens boolean := false;
  -- Attempts in their order: positions of records or of known rows. Null: the records in theirs.
  new_positions integer[]; known_positions integer[]; tops boolean[]; delivereds bigint[];
  i integer; one usage; is_new boolean; is_top boolean; is_cut boolean; delivered_cost bigint; due bigint; charged bigint;
  space bigint; part bigint; moved bigint; lost bigint; reason text;
  added usage[]; new_reasons text[]; changed usage[];
  -- What changed rows add to the sums and the ledger.
  corrections usage[]; flips integer[]; moves bigint[]; reasons text[];
  late integer; losses json[]; batch text; new_count integer;
begin
  lot_count := cardinality(lots_json);
  for n in 1 .. lot_count loop
    lots[n] := json_populate_record(usage_defaults(), lots_json[n]);
  end loop;
  if counts_json is not null then
    insert into delivered_count (request_id, attempt, account_id, output_tokens, lease_ids, hold)
    select c.request_id, c.attempt, c.account_id, c.output_tokens, c.lease_ids, c.hold
    from json_populate_recordset(null::delivered_count, counts_json) c order by c.request_id, c.attempt on conflict do nothing;
    for given in select * from json_populate_recordset(null::delivered_count, counts_json) loop
      all_requests := all_requests || given.request_id;
      -- Its record is settled before or after this, not in between.
      counted_budgets := counted_budgets || ('account/' || given.account_id);
    end loop;
  end if;
  if looks_back then
    known := array(select u from usage u
      where u.request_id = any(all_requests) and u.admitted_at >= from_at and u.admitted_at <= to_at);
  end if;

  -- The order of every lock: budgets by id, then leases by id.
  foreach lot in array lots || known loop
    wanted_budgets := wanted_budgets || usage_budgets(lot.account_id, lot.key_id, lot.admitted_at);
    wanted_leases := wanted_leases || lot.lease_ids;
  end loop;
  select array_agg(b.budget_id), array_agg(b.lim), array_agg(b.spent), array_agg(b.leased)
  into budget_ids, limits, spents, leaseds from (
    select budget_id, lim, spent, leased from budget
    where budget_id = any(wanted_budgets || counted_budgets
      || array(select l.budget_id from lease l where l.lease_id = any(wanted_leases)))
    order by budget_id for update) b;
  -- Only now each attempt of these requests is either here or not settled by anyone yet.
  select array_agg(l.lease_id), array_agg(l.budget_id), array_agg(l.granted), array_agg(l.settled), array_agg(l.is_open),
    array(select u from usage u
      where u.request_id = any(all_requests) and u.admitted_at >= from_at and u.admitted_at <= to_at),
    array(select c from delivered_count c where c.request_id = any(all_requests))
  into lease_names, lease_budgets, granteds, settleds, opens, known, counted from (
    select lease_id, budget_id, granted, settled, closed_at is null as is_open from lease
    where lease_id = any(wanted_leases) order by lease_id for update) l;
  if cardinality(known) > 0 then
    repeated := array(select f.i from unnest(requests, attempts) with ordinality f (request_id, attempt, i)
      join unnest(known) k on k.request_id = f.request_id and k.attempt = f.attempt);
    lots := lots || known;
  end if;

  last_scope := 0;
  for n in 1 .. coalesce(cardinality(lots), 0) loop
    lot := lots[n];
    if n > lot_count and not (usage_budgets(lot.account_id, lot.key_id, lot.admitted_at) <@ (wanted_budgets || counted_budgets)
      and lot.lease_ids <@ coalesce(wanted_leases, '{}'))
    then
      raise exception 'another attempt of request % was settled', lot.request_id using errcode = '40001';
    end if;
    first_scope := last_scope + 1;
    foreach id in array case when n > lot_count then usage_budgets(lot.account_id, lot.key_id, lot.admitted_at)
      else wanted_budgets[3 * n - 2 : 3 * n] end
    loop
      b := array_position(budget_ids, id);
      continue when b is null;
      last_scope := last_scope + 1;
      scope_budgets[last_scope] := b;
    end loop;
    has_open := cardinality(lot.lease_ids) = 0;
    foreach id in array lot.lease_ids loop
      l := array_position(lease_names, id);
      b := array_position(budget_ids, lease_budgets[l]);
      continue when b is null;
      s := array_position(scope_budgets, b, first_scope);
      if s is null then
        last_scope := last_scope + 1;
        s := last_scope;
        scope_budgets[s] := b;
      end if;
      scope_leases[s] := case when opens[l] then l end;
      has_open := has_open or opens[l];
      if n <= lot_count and lot.token_budget is null and budget_ids[b] like 'jwt/%' then
        lot.token_budget := budget_ids[b];
        lots[n] := lot;
      end if;
    end loop;
    scope_ends[n] := last_scope;
    is_late[n] := not has_open;
  end loop;

  -- Requests in the order of their first new record. Lower attempts first: what they were charged is what the highest may take.
  if cardinality(known) > 0 or cardinality(counted) > 0 or not 1 = all(attempts) then
    select array_agg(o.i), array_agg(o.k), array_agg(o.is_top), array_agg(o.delivered)
    into new_positions, known_positions, tops, delivereds from (
      select f.i, f.k, f.attempt = max(f.attempt) over (partition by f.request_id) as is_top, c.output_tokens as delivered
      from (
        select r.request_id, r.attempt, r.i, null as k from unnest(requests, attempts) with ordinality r (request_id, attempt, i)
        where repeated is null or r.i <> all(repeated)
        union all
        select k.request_id, k.attempt, null, k.ordinality from unnest(known) with ordinality k
      ) f left join unnest(counted) c on c.request_id = f.request_id and c.attempt = f.attempt
      order by min(f.i) over (partition by f.request_id), f.request_id, f.attempt) o;
  end if;
  for a in 1 .. coalesce(cardinality(new_positions), cardinality(requests)) loop
    is_new := known_positions[a] is null;
    is_top := coalesce(tops[a], true);
    if is_new then
      i := coalesce(new_positions[a], a);
      n := lot_numbers[i];
      one := lots[n];
      one.settled_at := now();
      if admitted_ms is not null then
        one.request_id := requests[i];
        one.attempt := attempts[i];
        one.admitted_at := to_timestamp(admitted_ms[i] / 1000::float8);
        one.ended_at := to_timestamp(ended_ms[i] / 1000::float8);
        one.hold := holds[i];
        one.cost := costs[i];
        one.input_tokens := inputs[i];
        one.cached_input_tokens := cached_inputs[i];
        one.output_tokens := outputs[i];
        one.reasoning_tokens := reasonings[i];
        one.queue_ms := queues[i];
        one.first_byte_ms := first_bytes[i];
        one.total_ms := totals[i];
      end if;
      if is_late[n] then late := coalesce(late, 0) + 1; end if;
    else
      n := lot_count + known_positions[a];
      one := lots[n];
    end if;
    first_scope := coalesce(scope_ends[n - 1], 0) + 1;
    last_scope := scope_ends[n];

    due := least(one.cost, one.hold);
    is_cut := false;
    if delivereds[a] < one.output_tokens or delivereds[a] = 0 then
      part := least(one.cached_input_tokens, one.input_tokens);
      -- Nothing delivered is nothing billed, the prompt included.
      delivered_cost := case when delivereds[a] > 0 then least(one.cost, div((one.input_tokens - part) * one.input_rate::numeric
        + part * one.cached_input_rate::numeric + delivereds[a] * one.output_rate::numeric + 500000, 1000000)) else 0 end;
      is_cut := delivered_cost < due;
      due := least(due, delivered_cost);
    end if;
    charged := 0;
    if is_top and first_scope <= last_scope then
      -- How much more the row may take: from its open leases, and from what the limits leave beside all leases. Null: no limit.
      space := null;
      for s in first_scope .. last_scope loop
        b := scope_budgets[s];
        if limits[b] is not null then
          l := scope_leases[s];
          space := least(space, greatest(limits[b] - spents[b] - leaseds[b], 0)
            + case when l is null then 0 else greatest(granteds[l] - settleds[l], 0) end);
        end if;
      end loop;
      charged := greatest(one.charge + least(due - one.charge, space), 0);
    end if;

    moved := charged - one.charge;
    if moved <> 0 then
      has_moved := true;
      for s in first_scope .. last_scope loop
        b := scope_budgets[s];
        l := scope_leases[s];
        spents[b] := spents[b] + moved;
        continue when l is null;
        -- The part that lies on an open lease leaves it, or returns to it.
        part := case when moved > 0 then least(moved, greatest(granteds[l] - settleds[l], 0)) else -least(-moved, settleds[l]) end;
        settleds[l] := settleds[l] + part;
        leaseds[b] := leaseds[b] - part;
      end loop;
    end if;

    lost := case when is_new then one.cost - charged else -moved end;
    reason := null;
    if lost > 0 then
      reason := case
        when last_scope < first_scope then 'orphan'
        when not is_top then 'void_attempt'
        when charged < due then 'above_limit'
        when is_cut then 'undelivered'
        else 'above_hold' end;
      losses := losses || json_build_object('reason', reason, 'amount', lost::text);
    end if;
    one.charge := charged;
    has_users := has_users or one.end_user is not null;
    has_tokens := has_tokens or one.token_budget is not null;
    if is_new then
      one.voided := not is_top;
      added := added || one;
      new_reasons := new_reasons || reason;
    elsif moved <> 0 or one.voided = is_top then
      if one.voided = is_top then
        -- Its units leave or return to the month in which it was first settled.
        corrections := corrections || one;
        flips := flips || case when is_top then 1 else -1 end;
        moves := moves || 0::bigint;
        reasons := reasons || null::text;
      end if;
      one.voided := not is_top;
      changed := changed || one;
      if moved <> 0 then
        one.settled_at := now();
        one.deploy_id := '';
        corrections := corrections || one;
        flips := flips || 0;
        moves := moves || moved;
        reasons := reasons || reason;
      end if;
    end if;
  end loop;

  if changed is not null then
    update usage set charge = c.charge, voided = c.voided from unnest(changed) c
    where usage.request_id = c.request_id and usage.attempt = c.attempt and usage.admitted_at = c.admitted_at;
  end if;
  if added is not null or changed is not null then
    new_count := coalesce(cardinality(added), 0);
    batch := replace(gen_random_uuid()::text, '-', '');
    if has_users then
      with used as materialized (
        select account_id, (settled_at at time zone 'UTC')::date as day, end_user, model, key_id, sum(flip) as requests,
          sum(flip * input_tokens) as input_tokens, sum(flip * output_tokens) as output_tokens, sum(paid) as cost
        from (
          select p.*, coalesce(flips[p.ordinality - new_count], case when p.voided then 0 else 1 end) as flip,
            coalesce(moves[p.ordinality - new_count], p.charge) as paid
          from unnest(added || corrections) with ordinality p
        ) posted where end_user is not null and (flip <> 0 or paid <> 0)
        group by 1, 2, 3, 4, 5
      ), by_day as (
        insert into usage_end_user as u (account_id, day, end_user, model, key_id, requests, input_tokens, output_tokens, cost)
        select * from used order by 1, 2, 3, 4, 5
        on conflict (account_id, day, end_user, model, key_id) do update set
          requests = u.requests + excluded.requests,
          input_tokens = u.input_tokens + excluded.input_tokens,
          output_tokens = u.output_tokens + excluded.output_tokens,
          cost = u.cost + excluded.cost
      )
      insert into usage_end_user_month as m (account_id, month, end_user, days, requests, input_tokens, output_tokens, cost)
      select d.account_id, date_part('year', d.day) * 12 + date_part('month', d.day) - 1, d.end_user,
        bit_or(1 << date_part('day', d.day)::integer - 1), sum(d.requests), sum(d.input_tokens), sum(d.output_tokens), sum(d.cost)
      from used d group by 1, 2, 3 order by 1, 2, 3
      on conflict (account_id, month, end_user) do update set
        days = m.days | excluded.days,
        requests = m.requests + excluded.requests,
        input_tokens = m.input_tokens + excluded.input_tokens,
        output_tokens = m.output_tokens + excluded.output_tokens,
        cost = m.cost + excluded.cost;
    end if;
    if has_tokens then
      insert into usage_token as t (account_id, day, token_budget, key_id, requests, input_tokens, output_tokens, cost)
      select account_id, (settled_at at time zone 'UTC')::date, token_budget, max(key_id), sum(flip), sum(flip * input_tokens),
        sum(flip * output_tokens), sum(paid)
      from (
        select p.*, coalesce(flips[p.ordinality - new_count], case when p.voided then 0 else 1 end) as flip,
          coalesce(moves[p.ordinality - new_count], p.charge) as paid
        from unnest(added || corrections) with ordinality p
      ) posted where token_budget is not null and (flip <> 0 or paid <> 0)
      group by 1, 2, 3 order by 1, 2, 3
      on conflict (account_id, day, token_budget) do update set
        requests = t.requests + excluded.requests,
        input_tokens = t.input_tokens + excluded.input_tokens,
        output_tokens = t.output_tokens + excluded.output_tokens,
        cost = t.cost + excluded.cost;
    end if;
    with written as (
      insert into usage select a.* from unnest(added) a
    ), rolled as (
      insert into usage_day as d (account_id, month, day, key_id, model, price_version, discount_id, deploy_id, records, requests,
        entries, cost, tokens, output_tokens, gpu_ms, characters, audio_ms, images, image_milli)
      select account_id, date_part('year', settled_on) * 12 + date_part('month', settled_on) - 1, date_part('day', settled_on),
        key_id, model, price_version, coalesce(discount_id, ''), max(deploy_id),
        sum(flip), sum(case when gpu_ms = 0 then flip else 0 end), sum(case when paid = 0 then 0 else 1 end), sum(paid),
        sum(flip * (input_tokens + output_tokens)), sum(flip * output_tokens), sum(flip * gpu_ms), sum(flip * characters),
        sum(flip * audio_ms), sum(flip * images),
        sum(flip * case when image_unit > 0 and image_pixel_steps > 0 then image_pixel_steps * 1000 / image_unit
          else images * 1000 end)
      from (
        select p.*, coalesce(flips[p.ordinality - new_count], case when p.voided then 0 else 1 end) as flip,
          coalesce(moves[p.ordinality - new_count], p.charge) as paid, (p.settled_at at time zone 'UTC')::date as settled_on
        from unnest(added || corrections) with ordinality p
      ) posted where flip <> 0 or paid <> 0
      group by account_id, settled_on, key_id, model, price_version, coalesce(discount_id, '')
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
        image_milli = d.image_milli + excluded.image_milli
    ), entered as (
      -- A ledger transaction of two entries that sum to 0 for each amount.
      insert into ledger_entry (transaction_id, book, account_id, amount, kind, request_id, attempt, key_id, model,
        price_version, discount_id, note)
      select batch || '-' || ordinality || case when is_loss then 'l' else '' end, book, account_id,
        sign * case when is_loss then unpaid else paid end,
        case when is_loss then 'loss' when ordinality > new_count then 'correction' else 'capture' end,
        request_id, attempt, key_id, model, price_version, discount_id,
        case when is_loss then coalesce(new_reasons[ordinality], reasons[ordinality - new_count]) end
      from (
        select p.*, coalesce(moves[p.ordinality - new_count], p.charge) as paid,
          coalesce(-moves[p.ordinality - new_count], p.cost - p.charge) as unpaid
        from unnest(added || corrections) with ordinality p
      ) posted cross join (values (false, 'customer_available', -1), (false, 'customer_spent', 1),
        (true, 'platform_revenue', -1), (true, 'platform_loss', 1)) side (is_loss, book, sign)
      where case when is_loss then unpaid else paid end <> 0
    ), paid as (
      update budget set spent = spents[array_position(budget_ids, budget.budget_id)],
        leased = leaseds[array_position(budget_ids, budget.budget_id)]
      where has_moved and budget.budget_id = any(budget_ids)
    )
    update lease set settled = settleds[array_position(lease_names, lease.lease_id)]
    where has_moved and lease.lease_id = any(lease_names) and lease.closed_at is null;
  end if;
  if late is null and losses is null and repeated is null then return null; end if;
  return json_build_object('repeated', repeated, 'late', coalesce(late, 0), 'losses', losses);
end $$;
`;
