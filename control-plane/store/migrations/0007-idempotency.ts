import { type Kysely, sql } from "kysely";

/** Answers to requests with an `Idempotency-Key`. Comments on columns stand in store/schema/idempotency.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table idempotency (
      account_id text not null references account,
      route text not null,
      key text not null,
      body_hash bytea not null,
      claim_id text not null,
      locked_until timestamptz not null,
      answer bytea,
      expires_at timestamptz not null,
      primary key (account_id, route, key)
    )`.execute(db);
  await sql`create index idempotency_expiry on idempotency (expires_at)`.execute(db);
}
