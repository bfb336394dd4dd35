import { type Kysely, sql } from "kysely";

/** Money that a request needed and this budget lacked, while that is the last word of the admissions; null otherwise. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table budget add column refused_floor bigint`.execute(db);
}
