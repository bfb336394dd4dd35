import { type Kysely, sql } from "kysely";

/** Responses that callers asked to store, and those that run in the background. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table stored_response (
      response_id text primary key,
      account_id text not null references account (account_id),
      key_id text not null,
      previous_id text,
      status text not null
        check (status in ('queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled')),
      background boolean not null,
      sealed bytea not null,
      bytes bigint not null generated always as (octet_length(sealed)) stored,
      created_at timestamptz not null default now(),
      finished_at timestamptz,
      claims integer not null default 0,
      faults integer not null default 0,
      claim_id text,
      locked_until timestamptz,
      due_at timestamptz not null default now(),
      expires_at timestamptz not null,
      check ((finished_at is null) = (status in ('queued', 'in_progress'))),
      check (status = 'in_progress' or claim_id is null)
    )`.execute(db);
  await sql`create index stored_response_bytes on stored_response (account_id) include (bytes, status)`.execute(db);
  await sql`create index stored_response_age on stored_response (created_at)`.execute(db);
  await sql`
    create index stored_response_due on stored_response (due_at) where status in ('queued', 'in_progress')`.execute(db);
}
