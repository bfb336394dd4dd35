import { type Kysely, sql } from "kysely";

/** Projects group API keys of an account under one budget per month. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table project (
      project_id text primary key,
      account_id text not null references account,
      name text not null,
      monthly_limit bigint check (monthly_limit >= 0),
      created_at timestamptz not null default now(),
      ended_at timestamptz
    )`.execute(db);
  await sql`create unique index project_live_name on project (account_id, lower(name)) where ended_at is null`.execute(
    db,
  );
  await sql`alter table api_key add column project_id text`.execute(db);
  await sql`create index api_key_project on api_key (project_id) where project_id is not null`.execute(db);
  await sql`
    alter table budget drop constraint budget_scope_check,
      add constraint budget_scope_check check (scope in ('account', 'account_month', 'key_month', 'project_month', 'jwt',
        'provider_month', 'provider_day')) not valid`.execute(db);
}
