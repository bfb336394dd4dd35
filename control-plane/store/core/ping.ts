import { type Kysely, sql } from "kysely";
import type { Database } from "./schema.ts";

/** Unix milliseconds of the database's clock when it replied. */
export async function databaseTimeMs(db: Kysely<Database>): Promise<number> {
  const askedMs = performance.now();
  const { rows } = await sql<{
    ms: number;
  }>`select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms`.execute(db);
  return (rows[0]?.ms ?? Number.NaN) + (performance.now() - askedMs) / 2;
}

/** Throws when PostgreSQL does not answer; bounded by the pool's own limits. */
export async function pingDatabase(db: Kysely<Database>): Promise<void> {
  await sql`select 1`.execute(db);
}
