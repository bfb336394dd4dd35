import { type Kysely, sql } from "kysely";

/** The tables of the spine. Comments on columns stand in store/schema.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table account (
      account_id text primary key,
      email text not null unique,
      display_name text not null unique,
      is_admin boolean not null default false,
      suspend_reason text,
      wrapped_dek bytea not null,
      kek_version integer not null,
      created_at timestamptz not null default now(),
      deleted_at timestamptz
    )`.execute(db);
  await sql`
    create table api_key (
      token_id text primary key,
      account_id text not null references account,
      name text not null,
      lookup bytea not null unique,
      ciphertext bytea not null,
      fragment text not null,
      allowed_ips text[],
      created_at timestamptz not null default now(),
      last_used_at timestamptz,
      revoked_at timestamptz
    )`.execute(db);
  await sql`create unique index api_key_live_name on api_key (account_id, name) where revoked_at is null`.execute(db);
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
  await sql`create sequence node_epoch`.execute(db);
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
  await sql`
    create table deployment (
      deploy_id text primary key,
      account_id text not null references account,
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
      extra_args text[] not null default '{}',
      external_url text,
      context_length integer not null default 0,
      memory_bytes bigint not null default 0,
      pending_reasons jsonb not null default '[]',
      generation integer not null default 1,
      revision bigint not null default 0,
      lock_owner text,
      lock_token bigint not null default 0,
      lock_expires_at timestamptz,
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now(),
      deleted_at timestamptz
    )`.execute(db);
  await sql`create unique index deployment_name on deployment (account_id, model_name)
    where status not in ('deleted', 'failed')`.execute(db);
  await sql`create table public_model (
      model_name text primary key,
      deploy_id text not null references deployment,
      description text not null default '',
      created_at timestamptz not null default now()
    )`.execute(db);
  await sql`
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
      seen_at timestamptz not null default now(),
      created_at timestamptz not null default now()
    )`.execute(db);
  await sql`
    create table instance (
      instance_id text primary key,
      deploy_id text not null references deployment,
      account_id text not null,
      host_id text not null references host,
      generation integer not null,
      gpu_uuids text[] not null,
      phase text not null default 'pending',
      fail_code text not null default '',
      fail_message text not null default '',
      bytes_done bigint not null default 0,
      bytes_total bigint not null default 0,
      restarts integer not null default 0,
      context_length integer not null default 0,
      identity text not null default '',
      tombstoned_at timestamptz,
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now()
    )`.execute(db);
  await sql`create index instance_host on instance (host_id)`.execute(db);
  await sql`create index instance_deployment on instance (deploy_id)`.execute(db);
  await sql`create table gpu_claim (
      host_id text not null references host,
      gpu_uuid text not null,
      instance_id text not null references instance on delete cascade,
      account_id text not null,
      memory_bytes bigint not null,
      primary key (host_id, gpu_uuid, instance_id)
    )`.execute(db);
  await sql`create table change (
      seq bigint generated always as identity primary key,
      topic text not null,
      subject text not null,
      at timestamptz not null default now()
    )`.execute(db);
}
