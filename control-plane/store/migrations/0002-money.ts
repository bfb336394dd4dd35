import { type Kysely, sql } from "kysely";

/** Budgets and leases, the ledger, usage, prices. Comments on columns stand in store/schema/money.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table budget (
      budget_id text primary key,
      scope text not null check (scope in ('account', 'api_key', 'jwt')),
      account_id text not null references account,
      lim bigint,
      spent bigint not null default 0,
      leased bigint not null default 0 check (leased >= 0)
    )`.execute(db);
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
  await sql`
    create table ledger_entry (
      entry_id bigint generated always as identity primary key,
      transaction_id text not null,
      book text not null check (book in ('customer_available', 'customer_spent', 'platform_revenue', 'platform_loss')),
      account_id text,
      amount bigint not null,
      kind text not null,
      request_id text,
      attempt integer,
      key_id text,
      model text,
      note text,
      posted_at timestamptz not null default now()
    )`.execute(db);
  await sql`create index ledger_entry_account on ledger_entry (account_id, posted_at)`.execute(db);
  await sql`create index ledger_entry_posted on ledger_entry (posted_at)`.execute(db);
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
      hold bigint not null,
      input_tokens bigint not null,
      cached_input_tokens bigint not null,
      output_tokens bigint not null,
      reasoning_tokens bigint not null,
      source text not null,
      end_reason text not null,
      price_version bigint not null,
      input_rate bigint not null,
      cached_input_rate bigint not null,
      output_rate bigint not null,
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
  // Months are made ahead by billing; a record outside them still lands.
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
      primary key (request_id, attempt)
    )`.execute(db);
  await sql`create table request_label (
      request_id text primary key, label text not null, account_id text not null, at timestamptz not null default now()
    )`.execute(db);
  await sql`
    create table price (
      price_version bigint generated always as identity primary key,
      model_name text not null,
      input_rate bigint not null check (input_rate >= 0),
      cached_input_rate bigint not null check (cached_input_rate >= 0),
      output_rate bigint not null check (output_rate >= 0),
      effective_from timestamptz not null default now()
    )`.execute(db);
}
