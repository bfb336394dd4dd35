import { type Kysely, sql } from "kysely";

/** Limits of accounts and the requests to change them. Comments on columns stand in store/schema/quotas.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table account_limit (
      account_id text primary key references account,
      rate_limit integer,
      tpm_rate_limit bigint,
      gpu_max jsonb not null default '{}',
      gpu_min jsonb not null default '{}',
      updated_at timestamptz not null default now()
    )`.execute(db);
  await sql`create table gpu_reserve (gpu text primary key, revision bigint not null)`.execute(db);
  await sql`
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
    )`.execute(db);
  await sql`create unique index limit_request_open on limit_request (account_id, kind) where decision is null`.execute(
    db,
  );
  await sql`create index limit_request_listed on limit_request (kind, created_at)`.execute(db);
  await sql`create index deployment_gpus on deployment (account_id, gpu)`.execute(db);
}
