import { type Kysely, sql } from "kysely";
import { createSettlementFunctions } from "./settlement-functions.ts";

/** Budgets and leases, the ledger, usage, prices. Comments on columns stand in store/schema/money.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table budget (
      budget_id text primary key,
      scope text not null check (scope in ('account', 'account_month', 'key_month', 'jwt')),
      account_id text not null references account,
      lim bigint,
      spent bigint not null default 0,
      leased bigint not null default 0 check (leased >= 0)
    )`.execute(db);
  await sql`create index budget_account on budget (account_id, scope)`.execute(db);
  await sql`create table replica (
      replica_id text primary key,
      epoch bigint not null,
      started_at timestamptz not null default now(),
      seen_at timestamptz not null default now()
    )`.execute(db);
  await sql`create sequence replica_epoch`.execute(db);
  await sql`
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
    )`.execute(db);
  await sql`create index lease_open on lease (budget_id) where closed_at is null`.execute(db);
  await sql`create index lease_expiry on lease (expires_at) where closed_at is null`.execute(db);
  await sql`create sequence ledger_entry_id`.execute(db);
  await sql`
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
    ) partition by range (posted_at)`.execute(db);
  // Months of ledger and usage are made ahead by billing; a row outside them still lands.
  await sql`create table ledger_entry_other partition of ledger_entry default`.execute(db);
  await sql`create index ledger_entry_account on ledger_entry (account_id, posted_at)`.execute(db);
  await sql`create index ledger_entry_posted on ledger_entry (posted_at)`.execute(db);
  await sql`
    create table credit (
      reference text primary key,
      account_id text not null references account,
      amount bigint not null,
      kind text not null check (kind in ('credit', 'topup', 'correction')),
      note text not null,
      granted_at timestamptz not null default now()
    )`.execute(db);
  await sql`create index credit_account on credit (account_id, granted_at)`.execute(db);
  await sql`
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
    ) partition by range (admitted_at)`.execute(db);
  await sql`create table usage_other partition of usage default`.execute(db);
  await sql`create index usage_account on usage (account_id, settled_at)`.execute(db);
  await sql`
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
    )`.execute(db);
  await sql`create index delivered_count_open on delivered_count (at) where resolved_at is null`.execute(db);
  await sql`create table request_label (
      request_id text primary key, label text, account_id text not null, end_user text, cache_key text, source text,
      at timestamptz not null default now()
    )`.execute(db);
  await sql`create index request_label_at on request_label (at)`.execute(db);
  await sql`
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
    )`.execute(db);
  await sql`create index price_subject on price (kind, subject, effective_from)`.execute(db);
  await sql`
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
    )`.execute(db);
  // A price or a posted entry is never changed: what a bill was made from can be read for ever.
  for (const table of ["price", "ledger_entry", "credit"]) {
    await sql`create trigger append_only before update or delete on ${sql.table(table)}
      for each row execute function refuse_change()`.execute(db);
  }
  await sql`
    create table usage_quarantine (
      quarantine_id bigint generated always as identity primary key,
      request_id text not null,
      attempt integer not null,
      node_epoch text not null,
      why text not null,
      record text not null,
      at timestamptz not null default now()
    )`.execute(db);
  // The same record comes again until it is acknowledged; two unreadable ones may share whatever names them.
  await sql`create unique index usage_quarantine_once on usage_quarantine (md5(record), node_epoch)`.execute(db);
  await createSettlementFunctions(db);
}
