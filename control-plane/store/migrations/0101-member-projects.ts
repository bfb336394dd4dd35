import { type Kysely, sql } from "kysely";

/** Projects to which the keys of a member belong, the default first; and the project of a workload identity's keys. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table member add column project_ids text[] not null default '{}'`.execute(db);
  await sql`alter table workload_identity add column project_id text`.execute(db);
}
