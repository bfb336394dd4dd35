// Retention of usage records: whole months, as partitions. Settlements wait only while the catalogue changes.
import { setTimeout as wait } from "node:timers/promises";
import { sql } from "kysely";
import { codeOf } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";

/** While the change waits for a lock, settlements wait behind it. */
const lockTimeout = "100ms";
const attempts = 20;
const pauseMs = 250;
const lockNotAvailable = "55P03";

interface Partition {
  readonly name: string;
  /** First moment after it. */
  readonly end: Date;
}

/**
 * Removes the oldest month of usage records that ended before, and at most `limit` expired records that are in no month's partition.
 * Sums, ledger and invoices stay. Returns about how many records were removed. Several control planes may run it.
 */
export async function expireUsage(db: Db, before: Date, limit: number): Promise<number> {
  // After a kill in between, a month is detached and not dropped.
  for (const { name } of await listMonths(db, "detached"))
    await sql`drop table if exists ${sql.table(name)}`.execute(db);
  const month = new Date(Date.UTC(before.getUTCFullYear(), before.getUTCMonth(), 1));
  const others = await deleteOthers(db, month, limit);
  const [oldest] = (await listMonths(db, "attached")).filter(({ end }) => end <= month);
  if (!oldest || (await isUndivided(db, oldest.end))) return others;
  const records = await detach(db, oldest);
  await sql`drop table if exists ${sql.table(oldest.name)}`.execute(db);
  return others + records;
}

/** Deletes records that are in no month's partition. One that was settled late counts in the sums of that day, so it stays as long. */
async function deleteOthers(db: Db, before: Date, limit: number): Promise<number> {
  if (await isUndivided(db, before)) return 0;
  return db.transaction().execute(async (trx) => {
    const { numAffectedRows } = await sql`
      delete from usage_other
      where ctid = any(array(
        select ctid from usage_other where admitted_at < ${before} and settled_at < ${before} limit ${limit}))`.execute(
      trx,
    );
    const count = Number(numAffectedRows ?? 0n);
    if (count > 0) await noteExpired(trx, before);
    return count;
  });
}

/** From here on no sum is computed again from older records, and no older record is settled. */
async function noteExpired(db: Db, before: Date): Promise<void> {
  await sql`
    insert into usage_retention (expired_before) values (${before}) on conflict (is_only) do update
    set expired_before = greatest(usage_retention.expired_before, excluded.expired_before)`.execute(db);
}

/** Months by age. Detached ones are only those that retention detached. */
async function listMonths(db: Db, state: "attached" | "detached"): Promise<readonly Partition[]> {
  const isAttached = state === "attached";
  const { rows } = await sql<{ name: string }>`
    select c.relname as name from pg_class c
    where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and c.relname ~ '^usage_[0-9]{4}_[0-9]{2}$'
      and c.relispartition = ${isAttached} order by 1`.execute(db);
  const months = rows.map(({ name }) => ({ name, end: new Date(Date.UTC(+name.slice(6, 10), +name.slice(11), 1)) }));
  if (isAttached) return months;
  const { rows: expired } = await sql<{ before: Date }>`select expired_before as before from usage_retention`.execute(
    db,
  );
  return months.filter(({ end }) => expired[0] !== undefined && end <= expired[0].before);
}

/** Sums of an earlier version that are by month can be divided only while the records are there. */
async function isUndivided(db: Db, end: Date): Promise<boolean> {
  const { rows } = await sql<{ is: boolean }>`
    select exists (select from usage_undivided where month <= ${end.getUTCFullYear() * 12 + end.getUTCMonth()}) as is`.execute(
    db,
  );
  return rows[0]?.is ?? false;
}

async function detach(db: Db, { name, end }: Partition): Promise<number> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await db.transaction().execute(async (trx) => {
        await sql`set local lock_timeout = ${sql.lit(lockTimeout)}`.execute(trx);
        const { rows } = await sql<{ n: number }>`
          select greatest(reltuples, 0)::float8 as n from pg_class where oid = to_regclass(${name}) and relispartition`.execute(
          trx,
        );
        if (!rows[0]) return 0;
        // Not concurrently: PostgreSQL does not do that beside a default partition.
        await sql`alter table usage detach partition ${sql.table(name)}`.execute(trx);
        await noteExpired(trx, end);
        return rows[0].n;
      });
    } catch (error) {
      if (codeOf(error) !== lockNotAvailable || attempt === attempts) throw error;
      await wait(pauseMs);
    }
  }
}
