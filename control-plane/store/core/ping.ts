import { sql } from "kysely";
import type { Db } from "./schema.ts";

/** Unix milliseconds of the database's clock when it replied. */
export async function databaseTimeMs(db: Db): Promise<number> {
  const sentMs = performance.now();
  const { rows } = await sql<{
    ms: number;
  }>`select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms`.execute(db);
  return (rows[0]?.ms ?? Number.NaN) + (performance.now() - sentMs) / 2;
}

/** Throws when PostgreSQL does not respond within the pool's limits. */
export async function pingDatabase(db: Db): Promise<void> {
  await sql`select 1`.execute(db);
}
