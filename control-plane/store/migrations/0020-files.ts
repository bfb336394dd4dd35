import { type Kysely, sql } from "kysely";

/** Files of accounts, and batches of requests that stand in them. Comments on columns stand in store/schema/files.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
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
    )`.execute(db);
  await sql`create index file_of_account on file (account_id, created_at, file_id) where removed_at is null`.execute(
    db,
  );
  await sql`create index file_expiry on file (expires_at)`.execute(db);
  await sql`create index file_removed on file (removed_at) where removed_at is not null`.execute(db);
  await sql`
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
    )`.execute(db);
  await sql`create index batch_of_account on batch (account_id, created_at, batch_id)`.execute(db);
  await sql`
    create index batch_open on batch (locked_until)
      where status in ('validating', 'in_progress', 'finalizing', 'cancelling')`.execute(db);
  await sql`create index batch_input on batch (input_file_id)`.execute(db);
  await sql`
    create table batch_result (
      batch_id text not null references batch on delete cascade,
      line integer not null,
      is_error boolean not null,
      body text not null,
      primary key (batch_id, line)
    )`.execute(db);
}
