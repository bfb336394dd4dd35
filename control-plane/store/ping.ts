import { type Kysely, sql } from "kysely";
import type { Database } from "./schema.ts";

/** Throws when PostgreSQL does not answer; bounded by the pool's own limits. */
export async function pingDatabase(db: Kysely<Database>): Promise<void> {
  await sql`select 1`.execute(db);
}
