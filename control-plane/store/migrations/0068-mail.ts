import { type Kysely, sql } from "kysely";

/** Mails to accounts, and whether an account gets its alerts of limits by mail. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table mail (
      mail_id text primary key,
      account_id text not null references account,
      recipient text not null,
      subject text not null,
      body text not null,
      state text not null default 'pending' check (state in ('pending', 'sent', 'failed')),
      attempts smallint not null default 0,
      error text not null default '',
      due_at timestamptz not null default now(),
      created_at timestamptz not null default now(),
      finished_at timestamptz
    )`.execute(db);
  await sql`create index mail_due on mail (due_at) where state = 'pending'`.execute(db);
  await sql`create index mail_account on mail (account_id, created_at)`.execute(db);
  await sql`create index mail_created on mail (created_at)`.execute(db);
  await sql`alter table account_billing add column alert_mail boolean not null default true`.execute(db);
  await sql`alter table limit_alert add column mail_id text`.execute(db);
}
