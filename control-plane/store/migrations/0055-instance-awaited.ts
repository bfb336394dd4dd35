import { type Kysely, sql } from "kysely";

/** When an instance that sleeps was last chosen to wake for a waiting caller. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table instance add awaited_at timestamptz`.execute(db);
}
