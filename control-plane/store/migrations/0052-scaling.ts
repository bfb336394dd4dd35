import { type Kysely, sql } from "kysely";

/** Targets of the times that users wait, and schedules of minimum instances. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table deployment add scaling jsonb not null default '{}'`.execute(db);
}
