import { type Kysely, sql } from "kysely";

/** Backups of this database that succeeded, as `stoker admin backup` notes them. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table database_backup (
      file text primary key,
      taken_at timestamptz not null,
      size_bytes bigint not null,
      row_count bigint not null,
      version text not null,
      verified_at timestamptz
    )`.execute(db);
  await sql`create index database_backup_taken on database_backup (taken_at)`.execute(db);
}
