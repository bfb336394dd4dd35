import { type Kysely, sql } from "kysely";

/** Seconds without a request until an instance gives its memory up and waits for a wake; 0: never. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table deployment add sleep_after integer not null default 0`.execute(db);
}
