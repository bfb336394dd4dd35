import { type Kysely, sql } from "kysely";

/** When the person of a session proved who they are, which for a session that a provider opened may be long before it began. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table login_session add column auth_time timestamptz`.execute(db);
}
