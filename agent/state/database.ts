// The agent's one database file: usage spool, desired state, epoch. Synchronous, so only state-worker.ts calls it.
// WAL: a commit under FULL is one fsync; under NORMAL it survives the process but not the machine, enough for start rows.
import { chmodSync, closeSync, existsSync, openSync, renameSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import type { End, MetaKey, PendingRow, SpoolDepth, Write } from "./state-messages.ts";

const schema = `
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID, STRICT;
CREATE TABLE IF NOT EXISTS starts (
  request_id TEXT NOT NULL, attempt INTEGER NOT NULL, lease_ids TEXT NOT NULL, record TEXT NOT NULL,
  PRIMARY KEY (request_id, attempt)
) WITHOUT ROWID, STRICT;
CREATE TABLE IF NOT EXISTS records (
  spool_id INTEGER PRIMARY KEY, created_ms INTEGER NOT NULL, lease_ids TEXT NOT NULL, record TEXT NOT NULL
) STRICT;`;

/**
 * Spool ids are reserved on disk in blocks: AUTOINCREMENT would write one page more in every commit. A block is worth a
 * millisecond of the clock that fresh files begin from, so no number of restarts runs ahead of it.
 */
const idBlock = 1_000;

export interface Database {
  /**
   * One transaction; the spool id of its last record, whose records have consecutive ids. `durable`: fsynced when it
   * returns. Throws and leaves nothing written otherwise.
   */
  write(batch: readonly Write[], ends: Iterable<End>, durable: boolean): number;
  /** Turns every start row into a record of reason `lost`, durably; the number of them. */
  loseStarts(): number;
  meta(): Partial<Record<MetaKey, string>>;
  pending(limit: number): PendingRow[];
  leaseIds(): string[];
  depth(): SpoolDepth;
  close(): void;
}

/** Throws what node:sqlite throws; see `isCorrupt`. */
export function openDatabase(path: string, nowMs: () => number): Database {
  // Who runs what here is nobody else's to read (and SQLite gives -wal and -shm the same mode).
  closeSync(openSync(path, "a", 0o600));
  chmodSync(path, 0o600);
  const db = new DatabaseSync(path, { timeout: 2_000 });
  try {
    const check = db.prepare("PRAGMA quick_check(1)").get() as { quick_check: string };
    if (check.quick_check !== "ok") throw Object.assign(new Error(check.quick_check), { errcode: 11 });
    db.exec("PRAGMA journal_mode = WAL");
    db.exec("PRAGMA wal_autocheckpoint = 4000");
    db.exec(schema);
    return prepare(db, nowMs);
  } catch (error) {
    db.close();
    throw error;
  }
}

function prepare(db: DatabaseSync, nowMs: () => number): Database {
  const putStart = db.prepare("INSERT OR REPLACE INTO starts VALUES (?, ?, ?, ?)");
  const dropStart = db.prepare("DELETE FROM starts WHERE request_id = ? AND attempt = ?");
  const putRecord = db.prepare("INSERT INTO records VALUES (?, ?, ?, ?)");
  const sizeOf = db.prepare(
    "SELECT count(*) AS n, sum(length(record)) AS bytes FROM records WHERE spool_id BETWEEN ? AND ?",
  );
  const dropRecords = db.prepare("DELETE FROM records WHERE spool_id BETWEEN ? AND ?");
  const setMeta = db.prepare("INSERT OR REPLACE INTO meta VALUES (?, ?)");
  const oldest = db.prepare("SELECT created_ms FROM records ORDER BY spool_id LIMIT 1");
  const oldestRows = db.prepare("SELECT spool_id, record FROM records ORDER BY spool_id LIMIT ?");
  const allMeta = db.prepare("SELECT key, value FROM meta");
  const allStarts = db.prepare("SELECT request_id, attempt, lease_ids, record FROM starts");
  const leaseLists = db.prepare("SELECT lease_ids FROM starts UNION SELECT lease_ids FROM records");
  const total = db.prepare("SELECT count(*) AS n, coalesce(sum(length(record)), 0) AS bytes FROM records").get();
  let records = Number(total?.["n"]);
  let bytes = Number(total?.["bytes"]);
  let isSynced: boolean | undefined;
  // A fresh file begins above every id an earlier one can have given: a late acknowledgement must never meet a new record.
  const kept = Number(allMeta.all().find((row) => row["key"] === "spool_ids")?.["value"] ?? 0);
  let lastId = Math.max(kept, nowMs() * 1000);
  let reserved = kept;

  /** Never given before, whatever was deleted and however the clock was set. */
  function nextId(): number {
    lastId += 1;
    if (lastId > reserved) {
      reserved = lastId + idBlock;
      setMeta.run("spool_ids", String(reserved));
    }
    return lastId;
  }

  function keep({ requestId, attempt, leaseIds, record, hadStart }: End, at: number): void {
    if (hadStart) dropStart.run(requestId, attempt);
    putRecord.run(nextId(), at, leaseIds, record);
    records += 1;
    bytes += record.length;
  }

  function apply(w: Write): void {
    switch (w[0]) {
      case "start":
        putStart.run(w[1], w[2], w[3], w[4]);
        return;
      case "acknowledge": {
        for (const [first, last] of runsOf(w[1])) {
          const size = sizeOf.get(first, last) as { n: number; bytes: number | null };
          records -= size.n;
          bytes -= size.bytes ?? 0;
          dropRecords.run(first, last);
        }
        return;
      }
      case "set":
        setMeta.run(w[1], w[2]);
    }
  }

  function write(batch: readonly Write[], ends: Iterable<End>, durable: boolean): number {
    if (isSynced !== durable) db.exec(`PRAGMA synchronous = ${durable ? "FULL" : "NORMAL"}`);
    isSynced = durable;
    const before = { records, bytes, lastId, reserved };
    db.exec("BEGIN IMMEDIATE");
    try {
      const at = nowMs();
      // Start rows first: a record takes its own away.
      for (const w of batch) apply(w);
      for (const end of ends) keep(end, at);
      db.exec("COMMIT");
      return lastId;
    } catch (error) {
      ({ records, bytes, lastId, reserved } = before);
      if (db.isTransaction) db.exec("ROLLBACK");
      throw error;
    }
  }

  return {
    write,
    loseStarts: () => {
      const starts = allStarts.all() as { request_id: string; attempt: number; lease_ids: string; record: string }[];
      if (starts.length > 0)
        write(
          [],
          starts.map((s) => lostEnd(s, nowMs())),
          true,
        );
      return starts.length;
    },
    meta: () => Object.fromEntries(allMeta.all().map((row) => [row["key"], row["value"]])),
    pending: (limit) =>
      oldestRows.all(limit).map((row) => ({ spoolId: String(row["spool_id"]), record: String(row["record"]) })),
    leaseIds: () => [
      ...new Set(leaseLists.all().flatMap((row) => String(row["lease_ids"]).split(",").filter(Boolean))),
    ],
    depth: () => ({ records, bytes, oldestMs: records === 0 ? 0 : Number(oldest.get()?.["created_ms"] ?? 0) }),
    close: () => db.close(),
  };
}

/** Ids that follow each other, as first and last: what is acknowledged together was mostly written together. */
function runsOf(spoolIds: readonly string[]): [number, number][] {
  const runs: [number, number][] = [];
  for (const id of spoolIds.map(Number).sort((a, b) => a - b)) {
    const open = runs.at(-1);
    if (open && id - open[1] <= 1) open[1] = id;
    else runs.push([id, id]);
  }
  return runs;
}

function lostEnd(
  start: { request_id: string; attempt: number; lease_ids: string; record: string },
  endedAtMs: number,
): End {
  const record = {
    ...(JSON.parse(start.record) as object),
    endedAtMs: String(endedAtMs),
    inputTokens: 0,
    cachedInputTokens: 0,
    outputTokens: 0,
    reasoningTokens: 0,
    source: "estimated",
    endReason: "lost",
  };
  const { request_id: requestId, attempt, lease_ids: leaseIds } = start;
  return { requestId, attempt, leaseIds, record: JSON.stringify(record), hadStart: true };
}

/** SQLITE_CORRUPT or SQLITE_NOTADB: the file will not get better by waiting. */
export function isCorrupt(error: unknown): boolean {
  const code = (error as { errcode?: number }).errcode ?? 0;
  return (code & 0xff) === 11 || (code & 0xff) === 26;
}

/** Renames the file and its journals; the new name of the file. */
export function moveAside(path: string, nowMs: number): string {
  const suffix = `.corrupt-${new Date(nowMs).toISOString().replaceAll(":", "-")}`;
  for (const tail of ["", "-wal", "-shm"])
    if (existsSync(path + tail)) renameSync(path + tail, `${path}${suffix}${tail}`);
  return path + suffix;
}
