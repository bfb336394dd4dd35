import { type Kysely, sql } from "kysely";

/** The trace of a request whose result goes to a webhook: its run, later, links to it. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table webhook_job add column trace text`.execute(db);
}
