import { type Kysely, sql } from "kysely";

/** Scale, rollouts and what they return to. Comments on columns stand in store/schema/deployments.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table deployment_spec (
      deploy_id text not null references deployment on delete cascade,
      spec integer not null,
      extra_args text[] not null,
      context_length integer not null,
      created_at timestamptz not null default now(),
      primary key (deploy_id, spec)
    )`.execute(db);
  await sql`
    alter table deployment
      add column target integer not null default 1,
      add column inactive_shutdown integer,
      add column awaited_at timestamptz,
      add column spec integer not null default 1,
      add column serving_spec integer not null default 0,
      add column update_error text not null default '',
      add column replacements integer not null default 0,
      add column replaced_at timestamptz,
      add column start_ms integer not null default 0`.execute(db);
  await sql`alter table instance
    add column spec integer not null default 1,
    add column ready_at timestamptz`.execute(db);
  await sql`insert into deployment_spec (deploy_id, spec, extra_args, context_length)
    select deploy_id, 1, extra_args, context_length from deployment`.execute(db);
}
