import { type Kysely, sql } from "kysely";

/** Groups that identity providers provision by SCIM. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table scim_group (
      group_id text primary key,
      provider_id text not null references identity_provider on delete cascade,
      display_name text not null,
      external_id text,
      created_at timestamptz not null default now(),
      changed_at timestamptz not null default now()
    )`.execute(db);
  await sql`create unique index scim_group_name on scim_group (provider_id, lower(display_name))`.execute(db);
  await sql`
    create table scim_group_member (
      group_id text not null references scim_group on delete cascade,
      identity_id text not null references identity on delete cascade,
      primary key (group_id, identity_id)
    )`.execute(db);
  await sql`create index scim_group_member_identity on scim_group_member (identity_id)`.execute(db);
}
