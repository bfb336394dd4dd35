import { type Kysely, sql } from "kysely";

/** Rules by which programs exchange a token of their platform for a short-lived key, and the exchanges. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table workload_identity (
      rule_id text primary key,
      account_id text not null references account,
      member_id text,
      name text not null,
      issuer text not null,
      audience text not null,
      subject text not null,
      claims jsonb not null,
      role text not null check (role in ('admin', 'read', 'inference')),
      allowed_models text[],
      life_seconds integer not null check (life_seconds between 60 and 3600),
      created_at timestamptz not null default now(),
      last_used_at timestamptz,
      constraint workload_identity_name unique (account_id, name)
    )`.execute(db);
  await sql`
    create table workload_exchange (
      exchange_id text primary key,
      rule_id text not null references workload_identity on delete cascade,
      token_id text references api_key,
      token_hash bytea not null,
      token_expires_at timestamptz not null,
      expires_at timestamptz not null
    )`.execute(db);
  await sql`create index workload_exchange_rule on workload_exchange (rule_id, expires_at)`.execute(db);
  await sql`create index workload_exchange_token on workload_exchange (token_hash)`.execute(db);
  await sql`create index workload_exchange_key on workload_exchange (token_id)`.execute(db);
  await sql`create index workload_exchange_expiry on workload_exchange (token_expires_at)`.execute(db);
}
