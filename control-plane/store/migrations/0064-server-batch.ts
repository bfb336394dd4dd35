import { type Kysely, sql } from "kysely";

/** Requests that an external server takes at once, as it reports, and deployments whose max_batch_size was not set. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table deployment add takes_server_batch boolean not null default false;
    alter table instance add server_batch_size integer`.execute(db);
}
