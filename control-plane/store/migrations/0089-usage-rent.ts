import { type Kysely, sql } from "kysely";

/** Index for the billed time of dedicated deployments. Settlements wait while it is built: PostgreSQL reads each partition once. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create index usage_rent on usage (account_id, admitted_at) include (deploy_id, total_ms)
    where gpu_ms > 0 and not voided`.execute(db);
}
