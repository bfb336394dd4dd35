import { type Kysely, sql } from "kysely";

/**
 * The whole schema as of the first 41 migrations, which were never released. `control-plane/store/migrate.ts` marks it as run on a
 * database that has all of them. Comments on columns are in `control-plane/store/schema/`.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const text of [
    accounts,
    installation,
    budgets,
    usage,
    settlement,
    invoices,
    hosts,
    deployments,
    quotas,
    agentInstances,
    requests,
  ])
    await sql.raw(text).execute(db);
}

/** Accounts, keys, sign-in and the audit log. */
const accounts = `
create table account (
  account_id text primary key,
  email text not null,
  email_verified boolean not null default true,
  display_name text not null constraint account_display_name_key unique,
  name text not null default '',
  first_name text not null default '',
  last_name text not null default '',
  country text not null default '',
  country_code text not null default '',
  company text not null default '',
  website text not null default '',
  title text not null default '',
  use_case text not null default '',
  attribution text not null default '',
  marketing_emails boolean not null default false,
  is_business_account boolean not null default false,
  is_team_account boolean not null default false,
  team_display_name text constraint account_team_name_key unique,
  is_admin boolean not null default false,
  suspend_reason text,
  monthly_limit bigint,
  wrapped_dek bytea not null,
  kek_version integer not null,
  created_at timestamptz not null default now(),
  deleted_at timestamptz
);
create unique index account_email_key on account (lower(email));
create index account_kek_version on account (kek_version);
create unique index account_display_name_folded on account (lower(display_name));

create table api_key (
  token_id text primary key,
  account_id text not null references account,
  name text not null,
  lookup bytea not null unique,
  ciphertext bytea not null,
  fragment text not null,
  allowed_ips text[],
  monthly_limit bigint,
  created_at timestamptz not null default now(),
  last_used_at timestamptz,
  revoked_at timestamptz
);
create unique index api_key_live_name on api_key (account_id, name) where revoked_at is null;

create table password (
  account_id text primary key references account,
  hash text not null,
  changed_at timestamptz not null default now()
);

create table login_session (
  lookup bytea primary key,
  account_id text not null references account,
  created_at timestamptz not null,
  seen_at timestamptz not null,
  expires_at timestamptz not null,
  factors text[] not null default '{password}'
);
create index login_session_account on login_session (account_id);
create index login_session_expires on login_session (expires_at);

-- Unlogged: a crash may forget attempts.
create unlogged table sign_in_attempt (
  key bytea primary key,
  taken integer not null,
  expires_at timestamptz not null
);
create index sign_in_attempt_expires on sign_in_attempt (expires_at);

create table second_factor (
  factor_id text primary key,
  account_id text not null references account,
  kind text not null check (kind in ('totp', 'passkey')),
  name text not null,
  sealed bytea,
  credential_id bytea unique,
  public_key bytea,
  transports text[] not null default '{}',
  counter bigint not null default 0,
  created_at timestamptz not null default now(),
  last_used_at timestamptz,
  check ((kind = 'totp') = (sealed is not null)),
  check ((kind = 'passkey') = (credential_id is not null and public_key is not null))
);
create index second_factor_account on second_factor (account_id);
create unique index second_factor_totp on second_factor (account_id) where kind = 'totp';

create table recovery_code (
  account_id text not null references account,
  hash bytea not null,
  primary key (account_id, hash)
);

create table sign_in_challenge (
  lookup bytea primary key,
  purpose text not null,
  account_id text references account,
  session bytea,
  challenge text,
  sealed bytea,
  expires_at timestamptz not null
);
create index sign_in_challenge_expires on sign_in_challenge (expires_at);
create index sign_in_challenge_account on sign_in_challenge (account_id);

create table sign_in_policy (
  only_row boolean primary key default true check (only_row),
  second_factor text not null check (second_factor in ('none', 'operators', 'all'))
);

create table cli_login (
  lookup bytea primary key,
  account_id text not null references account,
  token_id text not null references api_key,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  answered_at timestamptz
);
create index cli_login_expires on cli_login (expires_at);

create table ssh_key (
  ssh_key_id text primary key,
  account_id text not null references account,
  name text not null,
  public_key text not null,
  fingerprint text not null,
  created_at timestamptz not null default now(),
  constraint ssh_key_name unique (account_id, name)
);

create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% is append only: % is refused', tg_table_name, tg_op using errcode = '42501';
end $$;

create table audit (
  audit_id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  actor text not null,
  action text not null,
  subject text not null,
  account_id text,
  ip text not null,
  before jsonb not null,
  after jsonb not null,
  note text not null
);
create index audit_account on audit (account_id, audit_id);

create table account_suspension (
  account_id text not null references account,
  reason text not null check (reason in
    ('balance', 'payment-method', 'overdue-invoices', 'limit-reached', 'admin', 'bad-cc')),
  since timestamptz not null default now(),
  suspended_by text not null,
  note text not null,
  primary key (account_id, reason)
);

create table program_application (
  application_id text primary key,
  account_id text not null references account,
  company text not null,
  ceo text not null,
  funding text not null,
  founded_on text not null,
  website text not null,
  deal text not null,
  status text not null default 'pending' check (status in ('pending', 'approved', 'rejected')),
  created_at timestamptz not null default now(),
  decided_at timestamptz,
  decided_by text,
  decision_note text
);
create unique index program_application_open on program_application (account_id)
  where status = 'pending';

create trigger audit_append_only before update or delete or truncate on audit
  for each statement execute function refuse_change();
`;

/** What control planes share: their changes, epochs, keys, and how a restored database is recognised. */
const installation = `
create table change (
  seq bigint generated always as identity primary key,
  topic text not null,
  subject text not null,
  at timestamptz not null default now()
);

create sequence replica_epoch;

create table replica (
  replica_id text primary key,
  epoch bigint not null,
  started_at timestamptz not null default now(),
  seen_at timestamptz not null default now()
);

create table kek (
  version integer primary key,
  fingerprint bytea not null,
  begun_at timestamptz not null default now(),
  in_use_at timestamptz,
  finished_at timestamptz
);

create table replica_kek (
  replica_id text primary key references replica on delete cascade,
  version integer not null
);

create table database_identity (
  is_only boolean primary key default true check (is_only),
  system_identifier text not null,
  timeline integer not null
);

create table restore_mark (
  seq bigint primary key,
  mark text not null,
  made_at timestamptz not null default now()
);

create table reconcile (
  reconcile_id text primary key,
  cause text not null,
  began_at timestamptz not null default now(),
  ends_by timestamptz not null,
  backup_at timestamptz,
  ended_at timestamptz,
  report jsonb
);
create unique index reconcile_open on reconcile ((true)) where ended_at is null;

create table reconcile_host (
  reconcile_id text not null references reconcile,
  host_id text not null,
  records bigint not null,
  dropped bigint not null,
  dropped_through timestamptz,
  is_done boolean not null,
  primary key (reconcile_id, host_id)
);

create table reconcile_sign (
  host_id text primary key,
  sign text not null,
  opened_at timestamptz not null default now()
);
`;

/** Budgets, leases and prices. */
const budgets = `
create table budget (
  budget_id text primary key,
  scope text not null check (scope in ('account', 'account_month', 'key_month', 'jwt')),
  account_id text not null references account,
  lim bigint,
  spent bigint not null default 0,
  leased bigint not null default 0 check (leased >= 0)
);
create index budget_account on budget (account_id, scope);

create table lease (
  lease_id text primary key,
  budget_id text not null references budget,
  replica_id text not null,
  replica_epoch bigint not null,
  granted bigint not null,
  settled bigint not null default 0,
  expires_at timestamptz not null,
  closed_at timestamptz,
  closed_why text
);
create index lease_open on lease (budget_id) where closed_at is null;
create index lease_expiry on lease (expires_at) where closed_at is null;

create table price (
  price_version bigint generated always as identity primary key,
  kind text not null check (kind in ('model', 'gpu', 'container')),
  subject text not null,
  input_rate bigint not null default 0 check (input_rate >= 0),
  cached_input_rate bigint not null default 0 check (cached_input_rate >= 0),
  output_rate bigint not null default 0 check (output_rate >= 0),
  character_rate bigint not null default 0 check (character_rate >= 0),
  audio_rate bigint not null default 0 check (audio_rate >= 0),
  image_rate bigint not null default 0 check (image_rate >= 0),
  image_steps integer not null default 0 check (image_steps >= 0),
  hour_rate bigint not null default 0 check (hour_rate >= 0),
  effective_from timestamptz not null default now(),
  set_at timestamptz not null default now()
);
create index price_subject on price (kind, subject, effective_from);

create table discount (
  discount_id text primary key,
  name text not null,
  text text not null,
  basis_points integer not null check (basis_points between 1 and 10000),
  account_id text references account,
  model text,
  surface text,
  effective_from timestamptz not null default now(),
  effective_to timestamptz,
  created_at timestamptz not null default now()
);

create table credit (
  reference text primary key,
  account_id text not null references account,
  amount bigint not null,
  kind text not null check (kind in ('credit', 'topup', 'correction')),
  note text not null,
  granted_at timestamptz not null default now()
);
create index credit_account on credit (account_id, granted_at);

create table gpu_hold (
  instance_id text primary key,
  deploy_id text not null,
  account_id text not null references account,
  host_id text,
  gpu_share double precision not null default 1,
  covered tstzmultirange not null default '{}',
  settled_until timestamptz not null default to_timestamp(0),
  lease_id text,
  ended_at timestamptz
);
create index gpu_hold_open on gpu_hold (instance_id) where ended_at is null;
create index gpu_hold_ended on gpu_hold (ended_at) where lease_id is not null;

create trigger append_only before update or delete on price
  for each row execute function refuse_change();

create trigger append_only before update or delete on credit
  for each row execute function refuse_change();
`;

/** The ledger and usage, partitioned by month. Months are created ahead; a row outside them goes to the default partition. */
const usage = `
create sequence ledger_entry_id;

create table ledger_entry (
  entry_id bigint not null default nextval('ledger_entry_id'),
  transaction_id text not null,
  book text not null check (book in ('customer_available', 'customer_spent', 'platform_revenue', 'platform_loss')),
  account_id text,
  amount bigint not null,
  kind text not null,
  request_id text,
  attempt integer,
  key_id text,
  model text,
  price_version bigint,
  discount_id text,
  note text,
  posted_at timestamptz not null default now(),
  primary key (entry_id, posted_at)
) partition by range (posted_at);
create index ledger_entry_account on ledger_entry (account_id, posted_at);
create index ledger_entry_posted on ledger_entry (posted_at);

create table ledger_entry_other partition of ledger_entry default;

create table usage (
  request_id text not null,
  attempt integer not null,
  admitted_at timestamptz not null,
  account_id text not null,
  key_id text not null,
  replica_id text not null,
  model text not null,
  deploy_id text not null,
  instance_id text not null,
  node_epoch bigint not null,
  lease_ids text[] not null,
  token_budget text,
  hold bigint not null,
  input_tokens bigint not null,
  cached_input_tokens bigint not null,
  output_tokens bigint not null,
  reasoning_tokens bigint not null,
  characters bigint not null default 0,
  audio_ms bigint not null default 0,
  images bigint not null default 0,
  image_pixel_steps bigint not null default 0,
  items bigint not null default 0,
  gpu_ms bigint not null default 0,
  source text not null,
  end_reason text not null,
  price_version bigint not null,
  input_rate bigint not null,
  cached_input_rate bigint not null,
  output_rate bigint not null,
  character_rate bigint not null default 0,
  audio_rate bigint not null default 0,
  image_rate bigint not null default 0,
  image_unit bigint not null default 0,
  discount_id text,
  cost bigint not null,
  charge bigint not null,
  voided boolean not null default false,
  queue_ms integer not null,
  first_byte_ms integer not null,
  total_ms integer not null,
  ended_at timestamptz not null,
  settled_at timestamptz not null default now(),
  primary key (request_id, attempt, admitted_at)
) partition by range (admitted_at);
create index usage_account on usage (account_id, settled_at);

create table usage_other partition of usage default;

create table usage_month (
  account_id text not null,
  month integer not null,
  key_id text not null,
  model text not null,
  price_version bigint not null,
  discount_id text not null,
  deploy_id text not null,
  records bigint not null,
  entries bigint not null,
  cost bigint not null,
  tokens bigint not null,
  gpu_ms bigint not null,
  characters bigint not null,
  audio_ms bigint not null,
  images bigint not null,
  image_milli bigint not null,
  primary key (account_id, month, key_id, model, price_version, discount_id)
) with (fillfactor = 50);

create table delivered_count (
  request_id text not null,
  attempt integer not null,
  account_id text not null,
  output_tokens bigint not null,
  lease_ids text[] not null,
  hold bigint not null,
  at timestamptz not null default now(),
  host_id text,
  lost jsonb,
  resolved_at timestamptz,
  primary key (request_id, attempt)
);
create index delivered_count_open on delivered_count (at) where resolved_at is null;

create table request_label (
  request_id text primary key, label text, account_id text not null, end_user text, cache_key text, source text,
  at timestamptz not null default now()
);
create index request_label_at on request_label (at);

create table usage_quarantine (
  quarantine_id bigint generated always as identity primary key,
  request_id text not null,
  attempt integer not null,
  node_epoch text not null,
  why text not null,
  record text not null,
  at timestamptz not null default now(),
  host_id text not null default '',
  problem text not null default 'malformed',
  resolved_at timestamptz,
  resolution text check (resolution in ('released', 'discarded'))
);
-- A record is sent again until it is acknowledged.
create unique index usage_quarantine_once on usage_quarantine (md5(record), node_epoch);
create index usage_quarantine_open on usage_quarantine (host_id, quarantine_id) where resolved_at is null;

create table usage_quarantine_host (host_id text primary key, dropped bigint not null);

create trigger append_only before update or delete on ledger_entry
  for each row execute function refuse_change();
`;

/** Settlement. */
const settlement = `
create type settle_lot as (
  n integer, account_id text, key_id text, replica_id text, model text, deploy_id text, instance_id text, node_epoch bigint,
  lease_ids text[], source text, end_reason text, price_version bigint, input_rate bigint, cached_input_rate bigint,
  output_rate bigint, discount_id text, budget_ids text[]
);

-- First and only attempts within their holds, on open leases with enough left for all of them. Writes them and returns true, or
-- writes nothing and returns false. Fields that many records share come once, as a lot; budgets and leases come summed.
create function settle_plain(lots_json json, budget_ids text[], budget_costs bigint[], wanted_leases text[],
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
    insert into usage_month as m (account_id, month, key_id, model, price_version, discount_id, deploy_id, records, entries,
      cost, tokens, gpu_ms, characters, audio_ms, images, image_milli)
    select account_id,
      (extract(year from now() at time zone 'UTC') * 12 + extract(month from now() at time zone 'UTC') - 1)::integer,
      key_id, model, price_version, coalesce(discount_id, ''), max(deploy_id),
      count(*) filter (where not voided), count(*) filter (where charge <> 0), sum(charge),
      coalesce(sum(1 * (input_tokens + output_tokens)) filter (where not voided), 0),
      coalesce(sum(1 * gpu_ms) filter (where not voided), 0),
      coalesce(sum(1 * characters) filter (where not voided), 0), coalesce(sum(1 * audio_ms) filter (where not voided), 0),
      coalesce(sum(1 * images) filter (where not voided), 0),
      coalesce(sum(1 * case when image_unit > 0 and image_pixel_steps > 0 then image_pixel_steps * 1000 / image_unit
        else images * 1000 end) filter (where not voided), 0)
    from added group by 1, 2, 3, 4, 5, 6 order by 1, 3, 4, 5, 6
    on conflict (account_id, month, key_id, model, price_version, discount_id) do update set
      deploy_id = greatest(m.deploy_id, excluded.deploy_id),
      records = m.records + excluded.records,
      entries = m.entries + excluded.entries,
      cost = m.cost + excluded.cost,
      tokens = m.tokens + excluded.tokens,
      gpu_ms = m.gpu_ms + excluded.gpu_ms,
      characters = m.characters + excluded.characters,
      audio_ms = m.audio_ms + excluded.audio_ms,
      images = m.images + excluded.images,
      image_milli = m.image_milli + excluded.image_milli
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
end $$;

-- settle_plain of one record whose hold is on one lease, its account's. owned: the account's budget, then those of its months.
create function settle_one(owned text[], on_lease text, from_at timestamptz, to_at timestamptz, request text,
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
  insert into usage_month as m (account_id, month, key_id, model, price_version, discount_id, deploy_id, records, entries,
    cost, tokens, gpu_ms, characters, audio_ms, images, image_milli)
  values (account,
    (extract(year from now() at time zone 'UTC') * 12 + extract(month from now() at time zone 'UTC') - 1)::integer,
    with_key, of_model, version, coalesce(with_discount, ''), deploy, 1,
    case when price <> 0 then 1 else 0 end, price, tokens_in + tokens_out, 0, 0, 0, 0, 0)
  on conflict (account_id, month, key_id, model, price_version, discount_id) do update set
    deploy_id = greatest(m.deploy_id, excluded.deploy_id),
    records = m.records + excluded.records,
    entries = m.entries + excluded.entries,
    cost = m.cost + excluded.cost,
    tokens = m.tokens + excluded.tokens,
    gpu_ms = m.gpu_ms + excluded.gpu_ms,
    characters = m.characters + excluded.characters,
    audio_ms = m.audio_ms + excluded.audio_ms,
    images = m.images + excluded.images,
    image_milli = m.image_milli + excluded.image_milli;
  return true;
end $$;

-- Locks budgets and leases of a group of records, and reads what is known of their requests.
create function settle_find(budget_ids text[], wanted_leases text[], requests text[], from_at timestamptz, to_at timestamptz)
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
end $$;

-- Writes what billing/post.ts decided about a group of records. Returns the number of new records.
create function settle_write(added json, changed json, entries json, budgets json, leases json)
returns integer language plpgsql set plan_cache_mode = 'force_generic_plan' as $$
declare inserted integer := 0;
begin
  if added is not null then
    insert into usage (request_id, attempt, admitted_at, account_id, key_id, replica_id, model, deploy_id, instance_id,
      node_epoch, lease_ids, token_budget, hold, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens, gpu_ms,
      source, end_reason, price_version, input_rate, cached_input_rate, output_rate, discount_id, cost, charge, voided, queue_ms,
      first_byte_ms, total_ms, ended_at, characters, audio_ms, images, image_pixel_steps, items, character_rate,
      audio_rate, image_rate, image_unit)
    select request_id, attempt, admitted_at, account_id, key_id, replica_id, model, deploy_id, instance_id,
      node_epoch, lease_ids, token_budget, hold, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens, gpu_ms,
      source, end_reason, price_version, input_rate, cached_input_rate, output_rate, discount_id, cost, charge, voided, queue_ms,
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
    insert into usage_month as m (account_id, month, key_id, model, price_version, discount_id, deploy_id, records, entries,
      cost, tokens, gpu_ms, characters, audio_ms, images, image_milli)
    select account_id,
      (extract(year from now() at time zone 'UTC') * 12 + extract(month from now() at time zone 'UTC') - 1)::integer,
      key_id, model, price_version, coalesce(discount_id, ''), max(deploy_id),
      count(*) filter (where not voided), count(*) filter (where charge <> 0), sum(charge),
      coalesce(sum(1 * (input_tokens + output_tokens)) filter (where not voided), 0),
      coalesce(sum(1 * gpu_ms) filter (where not voided), 0),
      coalesce(sum(1 * characters) filter (where not voided), 0), coalesce(sum(1 * audio_ms) filter (where not voided), 0),
      coalesce(sum(1 * images) filter (where not voided), 0),
      coalesce(sum(1 * case when image_unit > 0 and image_pixel_steps > 0 then image_pixel_steps * 1000 / image_unit
        else images * 1000 end) filter (where not voided), 0)
    from json_populate_recordset(null::usage, added) group by 1, 2, 3, 4, 5, 6 order by 1, 3, 4, 5, 6
    on conflict (account_id, month, key_id, model, price_version, discount_id) do update set
      deploy_id = greatest(m.deploy_id, excluded.deploy_id),
      records = m.records + excluded.records,
      entries = m.entries + excluded.entries,
      cost = m.cost + excluded.cost,
      tokens = m.tokens + excluded.tokens,
      gpu_ms = m.gpu_ms + excluded.gpu_ms,
      characters = m.characters + excluded.characters,
      audio_ms = m.audio_ms + excluded.audio_ms,
      images = m.images + excluded.images,
      image_milli = m.image_milli + excluded.image_milli;
  end if;
  if changed is not null then
    insert into usage_month as m (account_id, month, key_id, model, price_version, discount_id, deploy_id, records, entries,
      cost, tokens, gpu_ms, characters, audio_ms, images, image_milli)
    select account_id,
      (extract(year from settled_at at time zone 'UTC') * 12 + extract(month from settled_at at time zone 'UTC') - 1)::integer,
      key_id, model, price_version, coalesce(discount_id, ''), max(deploy_id),
      sum(sign), 0, 0,
      coalesce(sum(sign * (input_tokens + output_tokens)), 0), coalesce(sum(sign * gpu_ms), 0),
      coalesce(sum(sign * characters), 0), coalesce(sum(sign * audio_ms), 0),
      coalesce(sum(sign * images), 0),
      coalesce(sum(sign * case when image_unit > 0 and image_pixel_steps > 0 then image_pixel_steps * 1000 / image_unit
        else images * 1000 end), 0)
    from (
      select u.*, case when c.voided then -1 else 1 end as sign
      from usage u join json_populate_recordset(null::usage, changed) c
        on u.request_id = c.request_id and u.attempt = c.attempt and u.admitted_at = c.admitted_at and u.voided <> c.voided
    ) flipped group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6
    on conflict (account_id, month, key_id, model, price_version, discount_id) do update set
      deploy_id = greatest(m.deploy_id, excluded.deploy_id),
      records = m.records + excluded.records,
      entries = m.entries + excluded.entries,
      cost = m.cost + excluded.cost,
      tokens = m.tokens + excluded.tokens,
      gpu_ms = m.gpu_ms + excluded.gpu_ms,
      characters = m.characters + excluded.characters,
      audio_ms = m.audio_ms + excluded.audio_ms,
      images = m.images + excluded.images,
      image_milli = m.image_milli + excluded.image_milli;
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
    insert into usage_month as m (account_id, month, key_id, model, price_version, discount_id, deploy_id, records, entries,
      cost, tokens, gpu_ms, characters, audio_ms, images, image_milli)
    select account_id,
      (extract(year from now() at time zone 'UTC') * 12 + extract(month from now() at time zone 'UTC') - 1)::integer,
      coalesce(key_id, ''), coalesce(model, ''), coalesce(price_version, 0),
      coalesce(discount_id, ''), '', 0, count(*), sum(amount), 0, 0, 0, 0, 0, 0
    from json_populate_recordset(null::ledger_entry, entries) where book = 'customer_spent'
    group by 1, 2, 3, 4, 5, 6 order by 1, 3, 4, 5, 6
    on conflict (account_id, month, key_id, model, price_version, discount_id) do update set
      deploy_id = greatest(m.deploy_id, excluded.deploy_id),
      records = m.records + excluded.records,
      entries = m.entries + excluded.entries,
      cost = m.cost + excluded.cost,
      tokens = m.tokens + excluded.tokens,
      gpu_ms = m.gpu_ms + excluded.gpu_ms,
      characters = m.characters + excluded.characters,
      audio_ms = m.audio_ms + excluded.audio_ms,
      images = m.images + excluded.images,
      image_milli = m.image_milli + excluded.image_milli;
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
end $$;

-- Computes usage_month again from usage and the ledger.
create function rebuild_usage_months() returns void language sql as $$
  lock table usage, ledger_entry, usage_month in share row exclusive mode;
  delete from usage_month;
  insert into usage_month as m (account_id, month, key_id, model, price_version, discount_id, deploy_id, records, entries,
    cost, tokens, gpu_ms, characters, audio_ms, images, image_milli)
  select account_id,
    (extract(year from settled_at at time zone 'UTC') * 12 + extract(month from settled_at at time zone 'UTC') - 1)::integer,
    key_id, model, price_version, coalesce(discount_id, ''), max(deploy_id),
    count(*), 0, 0,
    coalesce(sum(1 * (input_tokens + output_tokens)), 0), coalesce(sum(1 * gpu_ms), 0),
    coalesce(sum(1 * characters), 0), coalesce(sum(1 * audio_ms), 0),
    coalesce(sum(1 * images), 0),
    coalesce(sum(1 * case when image_unit > 0 and image_pixel_steps > 0 then image_pixel_steps * 1000 / image_unit
      else images * 1000 end), 0)
  from usage where not voided group by 1, 2, 3, 4, 5, 6;
  insert into usage_month as m (account_id, month, key_id, model, price_version, discount_id, deploy_id, records, entries,
    cost, tokens, gpu_ms, characters, audio_ms, images, image_milli)
  select account_id,
    (extract(year from posted_at at time zone 'UTC') * 12 + extract(month from posted_at at time zone 'UTC') - 1)::integer,
    coalesce(key_id, ''), coalesce(model, ''), coalesce(price_version, 0),
    coalesce(discount_id, ''), '', 0, count(*), sum(amount), 0, 0, 0, 0, 0, 0
  from ledger_entry where book = 'customer_spent' and kind <> 'invoice' group by 1, 2, 3, 4, 5, 6
  on conflict (account_id, month, key_id, model, price_version, discount_id) do update set
    deploy_id = greatest(m.deploy_id, excluded.deploy_id),
    records = m.records + excluded.records,
    entries = m.entries + excluded.entries,
    cost = m.cost + excluded.cost,
    tokens = m.tokens + excluded.tokens,
    gpu_ms = m.gpu_ms + excluded.gpu_ms,
    characters = m.characters + excluded.characters,
    audio_ms = m.audio_ms + excluded.audio_ms,
    images = m.images + excluded.images,
    image_milli = m.image_milli + excluded.image_milli;
$$;
`;

/** Terms, invoices and payments. */
const invoices = `
create table account_billing (
  account_id text primary key references account,
  credit_line bigint not null default 0 check (credit_line >= 0),
  due_days integer not null default 14 check (due_days between 0 and 365),
  needs_payment_method boolean not null default false,
  has_payment_method boolean not null default false,
  has_billing_address boolean not null default false,
  customer text unique,
  topup_enabled boolean not null default false,
  topup_amount bigint not null default 0 check (topup_amount >= 0),
  topup_threshold bigint not null default 0 check (topup_threshold >= 0),
  topup_failed boolean not null default false,
  card_failed boolean not null default false,
  checked_at timestamptz
);

create table invoice (
  invoice_id text primary key,
  account_id text not null references account,
  month integer not null,
  total bigint not null,
  created_at timestamptz not null default now(),
  due_at timestamptz not null,
  paid_at timestamptz,
  unique (account_id, month)
);
create index invoice_open on invoice (account_id, month) where paid_at is null;

create table invoice_line (
  line_id bigint generated always as identity primary key,
  invoice_id text not null references invoice,
  account_id text not null,
  key_id text not null,
  model text not null,
  task text not null,
  is_private boolean not null,
  pricing_type text not null,
  price_version bigint,
  discount_id text,
  discount_name text not null,
  discount_text text not null,
  milli_units bigint not null,
  cost bigint not null
);
create index invoice_line_invoice on invoice_line (invoice_id);

create table billing_month (
  month integer primary key,
  closed_at timestamptz not null default now()
);

create table charge (
  charge_id text primary key,
  account_id text not null references account,
  purpose text not null check (purpose in ('topup', 'invoice')),
  invoice_id text references invoice,
  amount bigint not null check (amount > 0),
  provider text not null,
  state text not null check (state in ('charging', 'requested', 'done', 'failed')),
  claimed_until timestamptz,
  reference text,
  note text not null default '',
  created_at timestamptz not null default now(),
  ended_at timestamptz,
  cause text
);
-- Two replicas that see the threshold crossed at once start one charge.
create unique index charge_one_topup on charge (account_id)
  where purpose = 'topup' and state in ('charging', 'requested');
create unique index charge_one_invoice on charge (invoice_id)
  where state in ('charging', 'requested');
create index charge_open on charge (created_at) where state in ('charging', 'requested');
create index charge_account on charge (account_id, created_at);

create table payment_event (
  event_id text primary key,
  kind text not null,
  at timestamptz not null default now()
);

-- An issued invoice never changes, except that it is paid once.
create function refuse_invoice_change() returns trigger language plpgsql as $$
begin
  if tg_op = 'UPDATE' and old.paid_at is null
    and (to_jsonb(old) - 'paid_at') = (to_jsonb(new) - 'paid_at') then
    return new;
  end if;
  raise exception 'invoice % is immutable: only paid_at can be set, once', old.invoice_id
    using errcode = 'integrity_constraint_violation';
end $$;

create trigger immutable before update or delete on invoice
  for each row execute function refuse_invoice_change();

-- A row trigger does not run for TRUNCATE.
create trigger no_truncate before truncate on invoice
  for each statement execute function refuse_change();

create trigger immutable before update or delete on invoice_line
  for each row execute function refuse_change();

create trigger no_truncate before truncate on invoice_line
  for each statement execute function refuse_change();
`;

/** Hosts. */
const hosts = `
create sequence node_epoch;

create table host (
  host_id text primary key,
  hostname text not null,
  advertise text not null,
  inventory jsonb not null,
  node_epoch bigint not null,
  generation bigint not null default 0,
  revision bigint not null default 0,
  ticket_key bytea not null,
  schedulable boolean not null default false,
  condition text not null default '',
  agent_version text not null,
  run_id text not null default '',
  run_began_at timestamptz not null default now(),
  superseded_runs text[] not null default '{}',
  behind_epoch bigint,
  behind_generation bigint not null default 0,
  identity_alert text not null default '',
  unknown_instances jsonb not null default '[]',
  open_lease_ids text[] not null default '{}',
  reported_at timestamptz,
  live jsonb,
  kept_weights text[] not null default '{}',
  seen_at timestamptz not null default now(),
  created_at timestamptz not null default now()
);

create table node_authority (
  name text primary key,
  certificate bytea not null,
  sealed_key bytea not null,
  created_at timestamptz not null default now()
);

create table node_join_token (
  token_id text primary key,
  secret_hash bytea not null,
  pool text not null default '',
  for_host text,
  created_by text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  used_at timestamptz,
  used_by text
);

create table node_identity (
  host_id text primary key,
  key_hash bytea not null,
  pool text not null default '',
  serial text not null,
  not_after timestamptz not null,
  enrolled_at timestamptz not null default now(),
  revoked_at timestamptz
);

create table host_command (
  command_id text primary key,
  host_id text not null,
  instance_id text not null default '',
  generation bigint not null default 0,
  kind text not null,
  arguments jsonb not null,
  created_at timestamptz not null default now(),
  deadline_at timestamptz not null,
  outcome text,
  error_code text not null default '',
  error_message text not null default '',
  result jsonb,
  finished_at timestamptz
);
create index host_command_open on host_command (host_id, created_at) where outcome is null;

create table host_operation (
  host_id text primary key references host on delete cascade,
  kind text not null check (kind in ('cordon', 'drain')),
  note text not null default '',
  instances integer not null default 0,
  began_at timestamptz not null default now(),
  deadline_at timestamptz,
  check ((kind = 'drain') = (deadline_at is not null))
);

create table gpu_cordon (
  host_id text not null references host on delete cascade,
  gpu_uuid text not null,
  fault_id text not null,
  reason text not null,
  cordoned_at timestamptz not null default now(),
  lifted_at timestamptz,
  primary key (host_id, gpu_uuid, fault_id)
);

create table node_weights (
  prefetch_id text primary key,
  host_id text not null references host on delete cascade,
  repo text not null,
  revision text not null,
  file text not null,
  format text not null,
  pinned boolean not null,
  commit text not null default '',
  bytes bigint not null default 0,
  bytes_total bigint not null default 0,
  fail_code text not null default '',
  fail_message text not null default '',
  created_at timestamptz not null default now(),
  unique (host_id, repo, revision, file, format)
);

create table measured_memory (
  version text not null,
  engine text not null,
  gpu text not null,
  settings text not null,
  peak_bytes bigint not null,
  expected_bytes bigint not null,
  looks integer not null default 1,
  measured_at timestamptz not null default now(),
  primary key (version, engine, gpu, settings)
);
`;

/** Deployments, their instances and the GPUs they claim. */
const deployments = `
create table deployment (
  deploy_id text primary key,
  account_id text not null references account,
  kind text not null default 'model' check (kind in ('model', 'container', 'agent_instance')),
  model_name text not null,
  version text not null,
  task text not null,
  type text not null,
  engine text not null,
  status text not null,
  fail_reason text not null default '',
  gpu text not null,
  num_gpus integer not null,
  max_batch_size integer not null,
  min_instances integer not null,
  max_instances integer not null,
  weights jsonb not null,
  weights_token bytea,
  container jsonb,
  extra_args text[] not null default '{}',
  image text not null default '',
  external_url text,
  context_length integer not null default 0,
  memory_bytes bigint not null default 0,
  memory_bound boolean not null default false,
  price_subject text,
  pending_reasons jsonb not null default '[]',
  generation integer not null default 1,
  revision bigint not null default 0,
  lock_owner text,
  lock_token bigint not null default 0,
  lock_expires_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz,
  target integer not null default 1,
  inactive_shutdown integer,
  awaited_at timestamptz,
  spec integer not null default 1,
  serving_spec integer not null default 0,
  update_error text not null default '',
  replacements integer not null default 0,
  replaced_at timestamptz,
  start_ms integer not null default 0,
  standard_args jsonb not null default '{}',
  used_at timestamptz,
  memory_spec integer not null default 1,
  share_prefix_cache boolean not null default false
);
create unique index deployment_name on deployment (account_id, kind, model_name)
  where status not in ('deleted', 'failed');
create index deployment_gpus on deployment (account_id, gpu);
create index deployment_kept on deployment (account_id, created_at) where status <> 'deleted';
create index deployment_deleted on deployment (account_id, deleted_at) where status = 'deleted';

create table deployment_spec (
  deploy_id text not null references deployment on delete cascade,
  spec integer not null,
  extra_args text[] not null,
  context_length integer not null,
  created_at timestamptz not null default now(),
  standard_args jsonb not null default '{}',
  memory_bytes bigint,
  memory_bound boolean,
  primary key (deploy_id, spec)
);

create table public_model (
  model_name text primary key,
  deploy_id text not null references deployment,
  description text not null default '',
  created_at timestamptz not null default now()
);

create table model_meta (
  account_id text not null references account,
  model_name text not null,
  description text not null default '',
  github_url text not null default '',
  paper_url text not null default '',
  license_url text not null default '',
  cover_image text not null default '',
  readme text not null default '',
  tags text[] not null default '{}',
  is_public boolean not null default false,
  is_featured boolean not null default false,
  deprecated_at timestamptz,
  sunset_at timestamptz,
  replaced_by text,
  updated_at timestamptz not null default now(),
  primary key (account_id, model_name)
);

create table instance (
  instance_id text primary key,
  deploy_id text not null references deployment,
  account_id text not null,
  host_id text not null references host,
  generation integer not null,
  observed_generation integer not null default 0,
  gpu_uuids text[] not null,
  gpu_share double precision not null default 1 check (gpu_share > 0 and gpu_share <= 1),
  gpu_memory_bytes bigint not null default 0,
  granted_bytes bigint not null default 0,
  phase text not null default 'pending',
  fail_code text not null default '',
  fail_message text not null default '',
  bytes_done bigint not null default 0,
  bytes_total bigint not null default 0,
  restarts integer not null default 0,
  context_length integer not null default 0,
  identity text not null default '',
  ssh_port integer not null default 0,
  ssh_address text not null default '',
  tombstoned_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  spec integer not null default 1,
  ready_at timestamptz,
  adapters text[] not null default '{}'
);
create index instance_host on instance (host_id);
create index instance_deployment on instance (deploy_id);

create table ended_instance (
  instance_id text primary key,
  host_id text not null references host on delete cascade,
  ended_at timestamptz not null default now(),
  seen_again_at timestamptz
);
create index ended_instance_host on ended_instance (host_id) where seen_again_at is not null;
create index ended_instance_age on ended_instance (ended_at);

-- Constraints against a double allocation: one account per GPU, and never more of it than it has.
create table gpu_claim (
  host_id text not null references host,
  gpu_uuid text not null,
  account_id text not null,
  memory_bytes bigint not null,
  claimed_bytes bigint not null,
  constraint gpu_claim_exclusive primary key (host_id, gpu_uuid),
  constraint gpu_claim_account unique (host_id, gpu_uuid, account_id),
  constraint gpu_claim_room check (claimed_bytes <= memory_bytes)
);

create table gpu_share (
  host_id text not null,
  gpu_uuid text not null,
  instance_id text not null references instance on delete cascade,
  account_id text not null,
  memory_bytes bigint not null,
  primary key (instance_id, gpu_uuid),
  foreign key (host_id, gpu_uuid, account_id) references gpu_claim (host_id, gpu_uuid, account_id)
);
create index gpu_share_gpu on gpu_share (host_id, gpu_uuid);

-- Shares are released with their instance, however it is removed.
create function release_gpu_share() returns trigger language plpgsql as $$
begin
  update gpu_claim set claimed_bytes = claimed_bytes - old.memory_bytes
    where host_id = old.host_id and gpu_uuid = old.gpu_uuid;
  delete from gpu_claim c where c.host_id = old.host_id and c.gpu_uuid = old.gpu_uuid
    and not exists (select from gpu_share s where s.host_id = c.host_id and s.gpu_uuid = c.gpu_uuid);
  return null;
end $$;

create table adapter (
  adapter_id text primary key,
  account_id text not null references account,
  name text not null,
  base_deploy_id text not null references deployment,
  base_model text not null,
  is_base_public boolean not null,
  repo text not null,
  revision text not null,
  token bytea,
  is_private boolean not null default true,
  description text not null default '',
  status text not null default 'initializing'
    check (status in ('initializing', 'downloading', 'deploying', 'deployed', 'failed', 'deleted')),
  fail_reason text not null default '',
  is_wanted boolean not null default true,
  used_at timestamptz not null default now(),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  source text not null default 'huggingface' check (source in ('huggingface', 'civitai', 'url')),
  file text not null default '',
  url bytea,
  "commit" text not null default '',
  room_made_at timestamptz
);
create unique index adapter_name on adapter (account_id, name)
  where status not in ('deleted', 'failed');
create index adapter_base on adapter (base_deploy_id) where status not in ('deleted', 'failed');
create index adapter_kept on adapter (account_id, created_at) where status <> 'deleted';

create trigger gpu_share_released after delete on gpu_share
  for each row execute function release_gpu_share();
`;

/** Limits of accounts and requests to change them. */
const quotas = `
create table account_limit (
  account_id text primary key references account,
  rate_limit integer,
  tpm_rate_limit bigint,
  gpu_max jsonb not null default '{}',
  gpu_min jsonb not null default '{}',
  updated_at timestamptz not null default now()
);

create table limit_request (
  request_id text primary key,
  account_id text not null references account,
  kind text not null check (kind in ('gpu', 'rate')),
  reason text not null,
  requested jsonb not null,
  revision integer not null default 1,
  decision text check (decision in ('approved', 'rejected', 'withdrawn')),
  resolved_by text,
  resolution_reason text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  resolved_at timestamptz
);
create unique index limit_request_open on limit_request (account_id, kind) where decision is null;
create index limit_request_listed on limit_request (kind, created_at);

create table gpu_reserve (gpu text primary key, revision bigint not null);

create table gpu_sharing (
  account_id text not null references account on delete cascade,
  gpu text not null,
  revision bigint not null,
  primary key (account_id, gpu)
);
`;

/** Agent instances, backups of their volumes and open dashboards. */
const agentInstances = `
create table agent_instance (
  deploy_id text primary key references deployment,
  account_id text not null references account,
  agent_type text not null,
  plan_id text not null,
  version text not null,
  image text not null,
  port integer not null,
  volume_path text not null,
  vcpu double precision not null,
  ram_bytes bigint not null,
  hour_rate bigint not null check (hour_rate >= 0),
  started_at timestamptz not null default now(),
  was_stopped boolean not null default false,
  operation text check (operation in ('backup', 'restore', 'try_restore')),
  operation_backup text,
  operation_command text,
  operation_at timestamptz,
  last_backup_at timestamptz,
  last_fault text not null default '',
  removal_command text,
  volume_removed_at timestamptz,
  dashboard_port integer,
  check ((operation is null) = (operation_command is null))
);
create index agent_instance_account on agent_instance (account_id);
create index agent_instance_operation on agent_instance (operation_command)
  where operation_command is not null;

create table instance_backup (
  backup_id text primary key,
  deploy_id text not null references agent_instance,
  account_id text not null,
  is_scheduled boolean not null,
  state text not null check (state in ('creating', 'ready', 'failed', 'deleting')),
  blob_key text not null,
  made_by_command text,
  sha256 text not null default '',
  size_bytes bigint not null default 0,
  fault text not null default '',
  created_at timestamptz not null default now(),
  finished_at timestamptz,
  removal_command text
);
create index instance_backup_of on instance_backup (deploy_id, created_at);
create index instance_backup_failed on instance_backup (finished_at) where state = 'failed';

create table dashboard_visit (
  visit_hash bytea primary key,
  deploy_id text not null references agent_instance,
  account_id text not null references account,
  key_id text,
  login bytea,
  is_open boolean not null default false,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index dashboard_visit_of on dashboard_visit (deploy_id, created_at);
create index dashboard_visit_expiry on dashboard_visit (expires_at);
`;

/** Stored replies, webhooks, files, batches and voices. */
const requests = `
create table idempotency (
  account_id text not null references account,
  route text not null,
  key text not null,
  body_hash bytea not null,
  claim_id text not null,
  locked_until timestamptz not null,
  answer bytea,
  expires_at timestamptz not null,
  primary key (account_id, route, key)
);
create index idempotency_expiry on idempotency (expires_at);

create table webhook_secret (
  account_id text primary key references account,
  sealed bytea not null,
  made_at timestamptz not null default now(),
  previous_sealed bytea,
  previous_until timestamptz,
  check ((previous_sealed is null) = (previous_until is null))
);

create table webhook_job (
  request_id text primary key,
  account_id text not null references account,
  key_id text not null,
  token jsonb,
  label text,
  source text,
  model text not null,
  body bytea,
  url text not null,
  host text not null,
  origin text not null,
  state text not null check (state in ('queued', 'running', 'succeeded', 'failed')),
  claims integer not null default 0,
  faults integer not null default 0,
  claim_id text,
  locked_until timestamptz,
  due_at timestamptz not null default now(),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  error_code text,
  error_message text,
  finished_at timestamptz,
  check ((state = 'running') = (claim_id is not null)),
  check ((body is null) = (finished_at is not null))
);
create index webhook_job_open on webhook_job (due_at) where state in ('queued', 'running');
create index webhook_job_account on webhook_job (account_id) where state in ('queued', 'running');
create index webhook_job_finished on webhook_job (finished_at) where finished_at is not null;

create table webhook_delivery (
  webhook_id text primary key,
  request_id text not null unique references webhook_job on delete cascade,
  account_id text not null references account,
  url text not null,
  host text not null,
  body bytea,
  results bytea,
  state text not null check (state in ('pending', 'delivered', 'exhausted')),
  attempts integer not null default 0,
  tries integer not null default 0,
  due_at timestamptz not null default now(),
  claim_id text,
  locked_until timestamptz,
  last_status integer,
  last_outcome text,
  created_at timestamptz not null default now(),
  finished_at timestamptz,
  check ((state = 'pending') = (finished_at is null)),
  check (body is not null or state <> 'pending')
);
create index webhook_delivery_pending on webhook_delivery (due_at) where state = 'pending';
create index webhook_delivery_of on webhook_delivery (account_id, webhook_id);

create table webhook_attempt (
  webhook_id text not null references webhook_delivery on delete cascade,
  number integer not null,
  at timestamptz not null,
  ms integer not null,
  outcome text not null,
  status integer,
  answer text not null,
  primary key (webhook_id, number)
);

create table webhook_kept (account_id text primary key, bytes bigint not null);

create function note_webhook_kept() returns trigger language plpgsql as $$
declare owner text; change bigint := 0;
begin
  if tg_op <> 'INSERT' then
    owner := old.account_id;
    change := change - coalesce(octet_length(old.body), 0) - coalesce(octet_length(old.results), 0);
  end if;
  if tg_op <> 'DELETE' then
    owner := new.account_id;
    change := change + coalesce(octet_length(new.body), 0) + coalesce(octet_length(new.results), 0);
  end if;
  insert into webhook_kept values (owner, change)
    on conflict (account_id) do update set bytes = webhook_kept.bytes + excluded.bytes;
  return null;
end $$;

create table file (
  file_id text primary key,
  account_id text not null references account,
  purpose text not null default 'batch' check (purpose in ('batch', 'batch_output')),
  filename text not null default '',
  bytes bigint not null default 0,
  blob_key text not null,
  is_ready boolean not null default false,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  removed_at timestamptz
);
create index file_of_account on file (account_id, created_at, file_id) where removed_at is null;
create index file_expiry on file (expires_at);
create index file_removed on file (removed_at) where removed_at is not null;

create table batch (
  batch_id text primary key,
  account_id text not null references account,
  key_id text not null,
  endpoint text not null,
  input_file_id text not null,
  metadata jsonb,
  output_expires_after_ms bigint not null,
  status text not null default 'validating' check (status in ('validating', 'in_progress', 'finalizing', 'completed',
    'failed', 'expired', 'cancelling', 'cancelled')),
  model text,
  errors jsonb,
  total integer not null default 0,
  completed integer not null default 0,
  failed integer not null default 0,
  input_tokens bigint not null default 0,
  cached_tokens bigint not null default 0,
  output_tokens bigint not null default 0,
  reasoning_tokens bigint not null default 0,
  output_file_id text,
  error_file_id text,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  in_progress_at timestamptz,
  finalizing_at timestamptz,
  completed_at timestamptz,
  failed_at timestamptz,
  expired_at timestamptz,
  cancelling_at timestamptz,
  cancelled_at timestamptz,
  run integer not null default 0,
  barren_runs integer not null default 0,
  locked_until timestamptz not null default now()
);
create index batch_of_account on batch (account_id, created_at, batch_id);
create index batch_open on batch (locked_until)
  where status in ('validating', 'in_progress', 'finalizing', 'cancelling');
create index batch_input on batch (input_file_id);

create table batch_result (
  batch_id text not null references batch on delete cascade,
  line integer not null,
  is_error boolean not null,
  body text not null,
  primary key (batch_id, line)
);

create table voice (
  voice_id text primary key,
  account_id text not null references account,
  name text not null,
  description text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (account_id, name)
);

create table voice_sample (
  voice_id text not null references voice on delete cascade,
  account_id text not null,
  place integer not null,
  content_type text not null,
  sealed bytea not null,
  primary key (voice_id, place)
);

create table voice_blend (
  voice_id text not null references voice on delete cascade,
  account_id text not null,
  model text not null,
  blend text not null,
  measured jsonb not null,
  made_at timestamptz not null default now(),
  primary key (voice_id, model)
);

create trigger webhook_delivery_kept after insert or delete or update of body, results on webhook_delivery
  for each row execute function note_webhook_kept();
`;
