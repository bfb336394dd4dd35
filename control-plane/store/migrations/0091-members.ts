import { type Kysely, sql } from "kysely";

/** Members of organisations, invitations, and the member on whose behalf a key, an SSH key, a terminal or a dashboard visit exists. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table member (
      member_id text primary key,
      account_id text not null references account,
      person_id text references account,
      name text not null,
      role text not null check (role in ('owner', 'admin', 'developer', 'billing', 'viewer')),
      source text not null check (source in ('created', 'invited', 'provider')),
      created_at timestamptz not null default now(),
      constraint member_once unique (account_id, person_id),
      check (person_id <> account_id),
      check (person_id is not null or role <> 'owner')
    )`.execute(db);
  await sql`create index member_person on member (person_id)`.execute(db);
  await sql`create unique index member_service_name on member (account_id, lower(name)) where person_id is null`.execute(
    db,
  );
  await sql`
    create table invitation (
      invitation_id text primary key,
      account_id text not null references account,
      role text not null check (role in ('owner', 'admin', 'developer', 'billing', 'viewer')),
      email text,
      created_by text,
      created_at timestamptz not null default now(),
      expires_at timestamptz not null
    )`.execute(db);
  await sql`create unique index invitation_email on invitation (account_id, lower(email))`.execute(db);
  for (const table of ["api_key", "ssh_key", "terminal", "dashboard_visit"])
    await sql`alter table ${sql.id(table)} add column member_id text`.execute(db);
  await sql`create index api_key_member on api_key (member_id) where member_id is not null`.execute(db);
  await sql`create index invitation_creator on invitation (created_by)`.execute(db);
  await sql`
    alter table mail drop constraint mail_link_check,
      add constraint mail_link_check check (link in ('verify_email', 'reset_password', 'join_organization')) not valid`.execute(
    db,
  );
}
