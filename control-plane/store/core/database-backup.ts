// Database side of a backup: a snapshot to dump, facts to compare a restore with, and the marker of a restore.
import { sql } from "kysely";
import { openReconcile } from "../fleet/reconcile-store.ts";
import type { Db } from "./schema.ts";

/** Facts of one snapshot. */
export interface DatabaseFacts {
  readonly takenAtMs: number;
  /** Rows of each table of schema public. */
  readonly rows: Readonly<Record<string, number>>;
  /** Sum of all ledger entries; 0 in consistent books. */
  readonly ledgerSum: string;
  readonly ledgerEntries: number;
}

export async function readFacts(db: Db): Promise<DatabaseFacts> {
  const { rows: tables } = await sql<{ name: string }>`
    select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' order by 1`.execute(
    db,
  );
  const counts: Record<string, number> = {};
  // Tables of the job queue are not part of this schema.
  const plain = db.withoutPlugins();
  for (const { name } of tables) {
    const { rows } = await sql<{ n: bigint }>`select count(*) as n from ${sql.id(name)}`.execute(plain);
    counts[name] = Number(rows[0]?.n ?? 0n);
  }
  const { rows: ledger } = await sql<{ sum: string; n: bigint; now: Date }>`
    select coalesce(sum(amount), 0)::text as sum, count(*) as n, now() as now from ledger_entry`.execute(db);
  const [book] = ledger;
  if (!book) throw new Error("PostgreSQL returned no facts");
  return {
    takenAtMs: book.now.getTime(),
    rows: counts,
    ledgerSum: book.sum,
    ledgerEntries: Number(book.n),
  };
}

export interface BookSum {
  readonly book: string;
  readonly kind: string;
  readonly entries: string;
  readonly sum: string;
}

export async function readBookSums(db: Db): Promise<readonly BookSum[]> {
  const { rows } = await sql<BookSum>`
    select book, kind, count(*)::text as entries, sum(amount)::text as sum from ledger_entry group by 1, 2 order by 1, 2`.execute(
    db,
  );
  return rows;
}

/** Databases and roles of the server that a dump of this database does not contain. */
export async function listUncopied(db: Db): Promise<readonly string[]> {
  const { rows } = await sql<{ name: string }>`
    select 'database ' || datname as name from pg_database
    where not datistemplate and datname not in ('postgres', current_database())
    union all
    select 'role ' || rolname from pg_roles where rolname not like 'pg\\_%' and rolname <> current_user order by 1`.execute(
    db,
  );
  return rows.map(({ name }) => name);
}

/** Collects the planner's statistics, which a dump does not contain, and writes everything, so that the server stops at once. */
export async function finishCopy(db: Db): Promise<void> {
  await sql`analyze`.execute(db);
  await sql`checkpoint`.execute(db);
}

/** Runs `work` with a snapshot that pg_dump can use by its name; `facts` are from the same snapshot. */
export function withSnapshot<T>(db: Db, work: (snapshot: string, facts: DatabaseFacts) => Promise<T>): Promise<T> {
  return db
    .transaction()
    .setIsolationLevel("repeatable read")
    .execute(async (trx) => {
      // The transaction is idle while pg_dump runs.
      await sql`set local idle_in_transaction_session_timeout = 0`.execute(trx);
      const { rows } = await sql<{ name: string }>`select pg_export_snapshot() as name`.execute(trx);
      return work(rows[0]?.name ?? "", await readFacts(trx));
    });
}

export async function isEmptyDatabase(db: Db): Promise<boolean> {
  const { rows } = await sql<{ n: bigint }>`
    select count(*) as n from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')`.execute(
    db,
  );
  return rows[0]?.n === 0n;
}

/** True if a control plane wrote a heartbeat in the last 30 s. */
export async function isInUse(db: Db): Promise<boolean> {
  const { rows: found } = await sql<{ isThere: boolean }>`
    select to_regclass('public.replica') is not null as "isThere"`.execute(db);
  if (!found[0]?.isThere) return false;
  const { rows } = await sql<{ n: bigint }>`
    select count(*) as n from replica where seen_at > now() - interval '30 seconds'`.execute(db);
  return rows[0]?.n !== 0n;
}

/** More epochs than any host can have received since the backup: each connection of an agent uses one. */
const epochMargin = 1_000_000_000;

/** Raises the epoch above every host's, and opens a reconcile, in which agents send their stored usage again. */
export async function markRestored(db: Db, backupAtMs: number, lastsMs: number): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await sql`select setval('node_epoch', (select last_value from node_epoch) + ${epochMargin}::bigint)`.execute(trx);
    // Each host's row too, or its agent would be ahead of this database.
    await sql`update host set node_epoch = nextval('node_epoch'), generation = generation + ${epochMargin}::bigint`.execute(
      trx,
    );
    await sql`update reconcile set ended_at = now() where ended_at is null`.execute(trx);
    await openReconcile(trx, { cause: "restored from a backup", lastsMs, backupAtMs });
  });
}
