import { type Kysely, sql } from "kysely";

/** Tickets for terminals of containers and agent instances, and terminals that are open. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table terminal (
      ticket_hash bytea primary key,
      deploy_id text not null references deployment,
      account_id text not null references account,
      key_id text,
      login bytea,
      ip text not null,
      opened_at timestamptz,
      created_at timestamptz not null default now(),
      expires_at timestamptz not null
    )`.execute(db);
  await sql`create index terminal_account on terminal (account_id, created_at)`.execute(db);
  await sql`create index terminal_expiry on terminal (expires_at)`.execute(db);
}
