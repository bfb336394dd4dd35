import { type Kysely, sql } from "kysely";

/** Chain of hashes over the audit log, and what receivers outside have of it. The job `seal-audit` fills it, old rows included. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table audit_link (
      seq bigint primary key check (seq > 0),
      audit_id bigint not null unique references audit,
      hash bytea not null check (octet_length(hash) = 32),
      sealed_at timestamptz not null default now()
    )`.execute(db);
  await sql`create index audit_link_sealed_at on audit_link (sealed_at)`.execute(db);
  await sql`
    create trigger audit_link_append_only before update or delete or truncate on audit_link
      for each statement execute function refuse_change()`.execute(db);
  await sql`
    create table audit_delivery (
      receiver text primary key,
      seq bigint not null,
      at timestamptz not null default now()
    )`.execute(db);
}
