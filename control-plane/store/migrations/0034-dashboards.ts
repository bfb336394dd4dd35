import { type Kysely, sql } from "kysely";

/** Dashboards of agent instances, and who has one open. Comments on columns stand in store/schema/agent-instances.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table agent_instance add column dashboard_port integer`.execute(db);
  await sql`
    create table dashboard_visit (
      visit_hash bytea primary key,
      deploy_id text not null references agent_instance,
      account_id text not null references account,
      key_id text,
      login bytea,
      is_open boolean not null default false,
      created_at timestamptz not null default now(),
      expires_at timestamptz not null
    )`.execute(db);
  await sql`create index dashboard_visit_of on dashboard_visit (deploy_id, created_at)`.execute(db);
  await sql`create index dashboard_visit_expiry on dashboard_visit (expires_at)`.execute(db);
}
