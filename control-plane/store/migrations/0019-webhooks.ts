import { type Kysely, sql } from "kysely";

/** Requests that are answered at a webhook, and the calls that do it. Comments on columns stand in store/schema/webhooks.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table webhook_secret (
      account_id text primary key references account,
      sealed bytea not null,
      made_at timestamptz not null default now(),
      previous_sealed bytea,
      previous_until timestamptz,
      check ((previous_sealed is null) = (previous_until is null))
    )`.execute(db);
  await sql`
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
    )`.execute(db);
  await sql`create index webhook_job_open on webhook_job (due_at) where state in ('queued', 'running')`.execute(db);
  await sql`create index webhook_job_account on webhook_job (account_id) where state in ('queued', 'running')`.execute(
    db,
  );
  await sql`create index webhook_job_finished on webhook_job (finished_at) where finished_at is not null`.execute(db);
  await sql`
    create table webhook_delivery (
      webhook_id text primary key,
      request_id text not null unique references webhook_job on delete cascade,
      account_id text not null references account,
      url text not null,
      host text not null,
      body bytea not null,
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
      check ((state = 'pending') = (finished_at is null))
    )`.execute(db);
  await sql`create index webhook_delivery_pending on webhook_delivery (due_at) where state = 'pending'`.execute(db);
  await sql`create index webhook_delivery_of on webhook_delivery (account_id, webhook_id)`.execute(db);
  await sql`
    create table webhook_attempt (
      webhook_id text not null references webhook_delivery on delete cascade,
      number integer not null,
      at timestamptz not null,
      ms integer not null,
      outcome text not null,
      status integer,
      answer text not null,
      primary key (webhook_id, number)
    )`.execute(db);
}
