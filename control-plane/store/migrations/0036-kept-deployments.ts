import { type Kysely, sql } from "kysely";

/** Rows of what was deleted stay: a list and a look at models cost by what is left. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`create index deployment_kept on deployment (account_id, created_at) where status <> 'deleted'`.execute(db);
  await sql`create index deployment_deleted on deployment (account_id, deleted_at) where status = 'deleted'`.execute(
    db,
  );
  await sql`create index adapter_kept on adapter (account_id, created_at) where status <> 'deleted'`.execute(db);
}
