import { type Kysely, sql } from "kysely";

/** Where a session began, so that its owner recognises it in a list. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table login_session add column ip text, add column user_agent text`.execute(db);
}
