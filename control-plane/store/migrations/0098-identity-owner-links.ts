import { type Kysely, sql } from "kysely";

/** Which identities the owners of their accounts linked; the others need the account's second factor, and open no operator's account. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table identity add column is_linked_by_owner boolean not null default false`.execute(db);
}
