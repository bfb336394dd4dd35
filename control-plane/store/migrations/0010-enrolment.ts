import { type Kysely, sql } from "kysely";

/** Who hosts are, how they come in, and what they are to do once. Comments on columns stand in store/schema/enrolment.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table node_authority (
      name text primary key,
      certificate bytea not null,
      sealed_key bytea not null,
      created_at timestamptz not null default now()
    )`.execute(db);
  await sql`
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
    )`.execute(db);
  await sql`
    create table node_identity (
      host_id text primary key,
      key_hash bytea not null,
      pool text not null default '',
      serial text not null,
      not_after timestamptz not null,
      enrolled_at timestamptz not null default now(),
      revoked_at timestamptz
    )`.execute(db);
  await sql`
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
    )`.execute(db);
  await sql`create index host_command_open on host_command (host_id, created_at) where outcome is null`.execute(db);
}
