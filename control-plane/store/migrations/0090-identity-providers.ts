import { type Kysely, sql } from "kysely";

/** Identity providers of the operator, the people who sign in through them, and sign-ins that are in progress. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table identity_provider (
      provider_id text primary key,
      name text not null,
      issuer text not null unique,
      client_id text not null,
      client_secret bytea,
      scopes text not null,
      domains text[] not null,
      is_enforced boolean not null,
      is_listed boolean not null,
      trusts_email boolean not null,
      organization_id text references account,
      default_role text check (default_role in ('admin', 'developer', 'billing', 'viewer')),
      groups_claim text not null,
      role_of_group jsonb not null,
      scim_lookup bytea unique,
      scim_created_at timestamptz,
      revision integer not null default 1,
      created_at timestamptz not null default now()
    )`.execute(db);
  await sql`create index identity_provider_domains on identity_provider using gin (domains)`.execute(db);
  await sql`
    create table identity (
      identity_id text primary key,
      provider_id text not null references identity_provider on delete cascade,
      subject text,
      account_id text not null references account,
      email text not null,
      is_managed boolean not null,
      is_active boolean not null default true,
      user_name text,
      external_id text,
      given_name text not null default '',
      family_name text not null default '',
      display_name text not null default '',
      claimed_groups text[] not null default '{}',
      created_at timestamptz not null default now(),
      changed_at timestamptz not null default now(),
      last_used_at timestamptz,
      unique (provider_id, subject),
      unique (provider_id, account_id)
    )`.execute(db);
  await sql`create unique index identity_user_name on identity (provider_id, lower(user_name))`.execute(db);
  await sql`create index identity_external on identity (provider_id, external_id)`.execute(db);
  await sql`create index identity_account on identity (account_id)`.execute(db);
  await sql`
    create table provider_sign_in (
      lookup bytea primary key,
      provider_id text not null references identity_provider on delete cascade,
      browser bytea not null,
      return_to text not null,
      is_fresh boolean not null,
      account_id text references account,
      session bytea,
      expires_at timestamptz not null
    )`.execute(db);
  await sql`create index provider_sign_in_expiry on provider_sign_in (expires_at)`.execute(db);
  await sql`create index provider_sign_in_account on provider_sign_in (account_id)`.execute(db);
}
