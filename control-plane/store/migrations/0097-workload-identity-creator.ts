import { type Kysely, sql } from "kysely";

/** Member who created a workload identity, which ends with them. Null: the account itself, or created before this migration. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table workload_identity add column created_by text`.execute(db);
}
