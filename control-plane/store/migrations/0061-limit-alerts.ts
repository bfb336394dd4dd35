import { type Kysely, sql } from "kysely";

/** Alerts of monthly limits with their webhook calls, and what an invoice prints of its buyer. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table limit_alert (
      budget_id text not null,
      percent smallint not null,
      lim bigint not null,
      account_id text not null references account,
      key_id text,
      spent bigint not null,
      webhook_id text,
      at timestamptz not null default now(),
      primary key (budget_id, percent, lim)
    )`.execute(db);
  await sql`create index limit_alert_account on limit_alert (account_id, at)`.execute(db);
  await sql`create index limit_alert_at on limit_alert (at)`.execute(db);
  await sql`
    create index account_limited on account (account_id) where monthly_limit > 0 and deleted_at is null`.execute(db);
  await sql`
    create index api_key_limited on api_key (token_id) where monthly_limit > 0 and revoked_at is null`.execute(db);

  await sql`
    alter table account_billing add column alert_url text, add column alert_host text,
      add column invoice_address text not null default ''`.execute(db);
  await sql`alter table invoice add column buyer jsonb`.execute(db);

  await sql`alter table webhook_delivery add column event text`.execute(db);
}
