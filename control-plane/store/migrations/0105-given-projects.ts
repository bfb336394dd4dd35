import { type Kysely, sql } from "kysely";

/** Projects that an invitation or an identity provider gives to the members that come by it. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table invitation add column project_ids text[] not null default '{}'`.execute(db);
  await sql`alter table member add column provided_project_ids text[] not null default '{}'`.execute(db);
  await sql`alter table identity_provider
    add column default_project_ids text[] not null default '{}',
    add column projects_of_group jsonb not null default '{}'`.execute(db);
}
