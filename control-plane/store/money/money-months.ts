import { sql } from "kysely";
import type { Db } from "../core/schema.ts";

/**
 * Makes the partitions of this month and the next (UTC): usage by time of admission, the ledger by time of posting. A month
 * that already has rows in the default partition stays there.
 */
export async function ensureMoneyMonths(db: Db, now: Date): Promise<void> {
  for (const [table, time] of times) {
    for (const ahead of [0, 1]) await ensureMonth(db, table, time, now.getUTCFullYear(), now.getUTCMonth() + ahead);
  }
}

const times = [
  ["usage", "admitted_at"],
  ["ledger_entry", "posted_at"],
] as const;

async function ensureMonth(db: Db, table: string, time: string, year: number, month: number): Promise<void> {
  const first = new Date(Date.UTC(year, month, 1)).toISOString();
  const next = new Date(Date.UTC(year, month + 1, 1)).toISOString();
  const name = `${table}_${first.slice(0, 7).replace("-", "_")}`;
  const { rows } = await sql<{ there: boolean }>`select to_regclass(${name}) is not null as there`.execute(db);
  if (rows[0]?.there || (await hasRows(db, `${table}_other`, time, first, next))) return;
  try {
    await sql`create table if not exists ${sql.table(name)} partition of ${sql.table(table)}
      for values from (${sql.lit(first)}) to (${sql.lit(next)})`.execute(db);
  } catch (error) {
    // 23514: rows of that month entered the default partition in the meantime; 42P07: another replica was faster.
    const code = (error as { code?: string }).code;
    if (code !== "23514" && code !== "42P07") throw error;
  }
}

/** Asked first, as PostgreSQL logs each refusal as an error. */
async function hasRows(db: Db, table: string, time: string, from: string, to: string): Promise<boolean> {
  const { rows } = await sql<{ has: boolean }>`select exists (select from ${sql.table(table)}
    where ${sql.ref(time)} >= ${from} and ${sql.ref(time)} < ${to}) as has`.execute(db);
  return rows[0]?.has ?? false;
}
