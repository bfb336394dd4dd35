import { type Kysely, sql } from "kysely";
import type { Database } from "./schema.ts";

/** Makes the partitions of this month and the next (UTC). A month that already has rows in the default one stays there. */
export async function ensureUsageMonths(db: Kysely<Database>, now: Date): Promise<void> {
  for (const ahead of [0, 1]) {
    const first = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + ahead, 1));
    const next = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + ahead + 1, 1));
    const name = `usage_${first.toISOString().slice(0, 7).replace("-", "_")}`;
    const { rows } = await sql<{ there: boolean }>`select to_regclass(${name}) is not null as there`.execute(db);
    if (rows[0]?.there) continue;
    try {
      await sql`create table if not exists ${sql.table(name)} partition of usage
        for values from (${sql.lit(first.toISOString())}) to (${sql.lit(next.toISOString())})`.execute(db);
    } catch (error) {
      // 23514: rows of that month are in the default partition; 42P07: another replica was faster.
      const code = (error as { code?: string }).code;
      if (code !== "23514" && code !== "42P07") throw error;
    }
  }
}
