import { type Kysely, sql } from "kysely";

/** Terms, invoices, charges and what the payment provider told us. Comments on columns stand in store/schema/payments.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table account_billing (
      account_id text primary key references account,
      credit_line bigint not null default 0 check (credit_line >= 0),
      due_days integer not null default 14 check (due_days between 0 and 365),
      needs_payment_method boolean not null default false,
      has_payment_method boolean not null default false,
      has_billing_address boolean not null default false,
      customer text unique,
      topup_enabled boolean not null default false,
      topup_amount bigint not null default 0 check (topup_amount >= 0),
      topup_threshold bigint not null default 0 check (topup_threshold >= 0),
      topup_failed boolean not null default false,
      card_failed boolean not null default false,
      checked_at timestamptz
    )`.execute(db);
  await sql`
    create table invoice (
      invoice_id text primary key,
      account_id text not null references account,
      month integer not null,
      total bigint not null,
      created_at timestamptz not null default now(),
      due_at timestamptz not null,
      paid_at timestamptz,
      unique (account_id, month)
    )`.execute(db);
  await sql`create index invoice_open on invoice (account_id, month) where paid_at is null`.execute(db);
  await sql`
    create table invoice_line (
      line_id bigint generated always as identity primary key,
      invoice_id text not null references invoice,
      account_id text not null,
      key_id text not null,
      model text not null,
      task text not null,
      is_private boolean not null,
      pricing_type text not null,
      price_version bigint,
      discount_id text,
      discount_name text not null,
      discount_text text not null,
      milli_units bigint not null,
      cost bigint not null
    )`.execute(db);
  await sql`create index invoice_line_invoice on invoice_line (invoice_id)`.execute(db);
  await sql`create table billing_month (
      month integer primary key,
      closed_at timestamptz not null default now()
    )`.execute(db);
  await sql`
    create table charge (
      charge_id text primary key,
      account_id text not null references account,
      purpose text not null check (purpose in ('topup', 'invoice')),
      invoice_id text references invoice,
      amount bigint not null check (amount > 0),
      provider text not null,
      state text not null check (state in ('charging', 'requested', 'done', 'failed')),
      claimed_until timestamptz,
      reference text,
      note text not null default '',
      created_at timestamptz not null default now(),
      ended_at timestamptz
    )`.execute(db);
  // Two replicas that see the threshold crossed at once must start one charge.
  await sql`create unique index charge_one_topup on charge (account_id)
    where purpose = 'topup' and state in ('charging', 'requested')`.execute(db);
  await sql`create unique index charge_one_invoice on charge (invoice_id)
    where state in ('charging', 'requested')`.execute(db);
  await sql`create index charge_open on charge (created_at) where state in ('charging', 'requested')`.execute(db);
  await sql`create table payment_event (
      event_id text primary key,
      kind text not null,
      at timestamptz not null default now()
    )`.execute(db);
}
