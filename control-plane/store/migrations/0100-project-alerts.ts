import { type Kysely, sql } from "kysely";

/** Alerts of the monthly limits of projects. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table limit_alert add column project_id text`.execute(db);
  await sql`
    create index project_limited on project (project_id) where monthly_limit > 0 and ended_at is null`.execute(db);
}
