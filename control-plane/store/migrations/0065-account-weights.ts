import { type Kysely, sql } from "kysely";

/** Share of busy engines that an account gets relative to others; null: the installation's default, 1. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table account_limit add column weight smallint check (weight between 1 and 100)`.execute(db);
}
