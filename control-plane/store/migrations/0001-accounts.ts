import { type Kysely, sql } from "kysely";

/** Accounts, their keys, and the feed of changes every replica reads. Comments on columns stand in store/schema/accounts.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table account (
      account_id text primary key,
      email text not null,
      email_verified boolean not null default true,
      display_name text not null constraint account_display_name_key unique,
      name text not null default '',
      first_name text not null default '',
      last_name text not null default '',
      country text not null default '',
      country_code text not null default '',
      company text not null default '',
      website text not null default '',
      title text not null default '',
      use_case text not null default '',
      attribution text not null default '',
      marketing_emails boolean not null default false,
      is_business_account boolean not null default false,
      is_team_account boolean not null default false,
      team_display_name text constraint account_team_name_key unique,
      is_admin boolean not null default false,
      suspend_reason text,
      monthly_limit bigint,
      wrapped_dek bytea not null,
      kek_version integer not null,
      created_at timestamptz not null default now(),
      deleted_at timestamptz
    )`.execute(db);
  await sql`create unique index account_email_key on account (lower(email))`.execute(db);
  await sql`create index account_kek_version on account (kek_version)`.execute(db);
  await sql`
    create table api_key (
      token_id text primary key,
      account_id text not null references account,
      name text not null,
      lookup bytea not null unique,
      ciphertext bytea not null,
      fragment text not null,
      allowed_ips text[],
      monthly_limit bigint,
      created_at timestamptz not null default now(),
      last_used_at timestamptz,
      revoked_at timestamptz
    )`.execute(db);
  await sql`create unique index api_key_live_name on api_key (account_id, name) where revoked_at is null`.execute(db);
  await sql`
    create table password (
      account_id text primary key references account,
      hash text not null,
      changed_at timestamptz not null default now()
    )`.execute(db);
  await sql`
    create table login_session (
      lookup bytea primary key,
      account_id text not null references account,
      created_at timestamptz not null,
      seen_at timestamptz not null,
      expires_at timestamptz not null
    )`.execute(db);
  await sql`create index login_session_account on login_session (account_id)`.execute(db);
  await sql`create index login_session_expires on login_session (expires_at)`.execute(db);
  // Not logged: attempts that a crash forgets were made by nobody in particular.
  await sql`
    create unlogged table sign_in_attempt (
      key bytea primary key,
      taken integer not null,
      expires_at timestamptz not null
    )`.execute(db);
  await sql`create index sign_in_attempt_expires on sign_in_attempt (expires_at)`.execute(db);
  await sql`
    create table cli_login (
      lookup bytea primary key,
      account_id text not null references account,
      token_id text not null references api_key,
      created_at timestamptz not null,
      expires_at timestamptz not null,
      answered_at timestamptz
    )`.execute(db);
  await sql`create index cli_login_expires on cli_login (expires_at)`.execute(db);
  await sql`
    create table ssh_key (
      ssh_key_id text primary key,
      account_id text not null references account,
      name text not null,
      public_key text not null,
      fingerprint text not null,
      created_at timestamptz not null default now(),
      constraint ssh_key_name unique (account_id, name)
    )`.execute(db);
  await sql`create table audit (
      audit_id bigint generated always as identity primary key,
      at timestamptz not null default now(),
      actor text not null,
      action text not null,
      subject text not null,
      account_id text,
      ip text not null,
      before jsonb not null,
      after jsonb not null,
      note text not null
    )`.execute(db);
  await sql`create index audit_account on audit (account_id, audit_id)`.execute(db);
  await sql`create function refuse_change() returns trigger language plpgsql as $$
    begin
      raise exception '% is append only: % is refused', tg_table_name, tg_op using errcode = '42501';
    end $$`.execute(db);
  await sql`create trigger audit_append_only before update or delete or truncate on audit
    for each statement execute function refuse_change()`.execute(db);
  await sql`
    create table account_suspension (
      account_id text not null references account,
      reason text not null check (reason in
        ('balance', 'payment-method', 'overdue-invoices', 'limit-reached', 'admin', 'bad-cc')),
      since timestamptz not null default now(),
      suspended_by text not null,
      note text not null,
      primary key (account_id, reason)
    )`.execute(db);
  await sql`
    create table program_application (
      application_id text primary key,
      account_id text not null references account,
      company text not null,
      ceo text not null,
      funding text not null,
      founded_on text not null,
      website text not null,
      deal text not null,
      status text not null default 'pending' check (status in ('pending', 'approved', 'rejected')),
      created_at timestamptz not null default now(),
      decided_at timestamptz,
      decided_by text,
      decision_note text
    )`.execute(db);
  await sql`create unique index program_application_open on program_application (account_id)
    where status = 'pending'`.execute(db);
  await sql`create table change (
      seq bigint generated always as identity primary key,
      topic text not null,
      subject text not null,
      at timestamptz not null default now()
    )`.execute(db);
}
