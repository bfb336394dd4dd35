import { type Kysely, sql } from "kysely";

/** Key-encryption keys that rotations made. Comments on columns stand in store/schema/kek.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table kek (
      version integer primary key,
      fingerprint bytea not null,
      begun_at timestamptz not null default now(),
      in_use_at timestamptz,
      finished_at timestamptz
    )`.execute(db);
  await sql`
    create table replica_kek (
      replica_id text primary key references replica on delete cascade,
      version integer not null
    )`.execute(db);
}
