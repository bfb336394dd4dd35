// The agent's one database file: usage spool, desired state, epoch. Synchronous, so only state-worker.ts calls it.
// WAL: a commit under FULL is one fsync; under NORMAL it survives the process but not the machine, enough for start rows.
import { chmodSync, closeSync, existsSync, openSync, renameSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { noTokens, type PendingRecord } from "../../proto/usage-record.ts";
import { maxKeptBytesOf, maxLogBytesOf } from "./disk-reserve.ts";
import type { End, MetaKey, Resend, SpoolDepth, Write } from "./state-messages.ts";

const schema = `
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID, STRICT;
CREATE TABLE IF NOT EXISTS starts (
  request_id TEXT NOT NULL, attempt INTEGER NOT NULL, lease_ids TEXT NOT NULL, record TEXT NOT NULL,
  PRIMARY KEY (request_id, attempt)
) WITHOUT ROWID, STRICT;
CREATE TABLE IF NOT EXISTS records (
  spool_id INTEGER PRIMARY KEY, created_ms INTEGER NOT NULL, lease_ids TEXT NOT NULL, record TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS kept (
  spool_id INTEGER PRIMARY KEY, kept_ms INTEGER NOT NULL, lease_ids TEXT NOT NULL, record TEXT NOT NULL
) STRICT;`;
/** Maximum rows deleted in one commit to meet a limit. */
const dropBatch = 2_000;
/** Kept rows made pending in one commit: other writes wait at most for one such commit. */
const moveBatch = 2_000;

/**
 * Spool ids are reserved on disk in blocks: AUTOINCREMENT would write one page more in every commit. A block corresponds to a
 * millisecond of the clock at which new files start, so restarts cannot advance the ids beyond the clock.
 */
const idBlock = 1_000;

const pageBytes = 4096;

/** Acknowledged records are kept, so that a control plane whose database was restored can ask for them again. */
export interface KeepLimits {
  readonly maxAgeMs: number;
  readonly maxBytes: number;
}

/** As stored in `meta`. Kept rows above `cursor` up to `throughId` are not yet pending. */
interface Move extends Resend {
  readonly cursor: string;
  readonly isMoved: boolean;
}

interface Size {
  readonly lease_ids: string;
  readonly n: number;
  readonly bytes: number;
}

export interface Database {
  /**
   * Runs one transaction and returns the spool id of its last record; its records have consecutive ids. `durable`: fsynced on
   * return. On an error it throws and nothing is written.
   */
  write(batch: readonly Write[], ends: Iterable<End>, durable: boolean): number;
  /** Turns every start row into a durable record of reason `lost`. Returns their number. */
  loseStarts(): number;
  meta(): Partial<Record<MetaKey, string>>;
  /** Oldest first. While a resend has records, these and newer ones alternate, starting with the resend. */
  pending(limit: number): PendingRecord[];
  leaseIds(): string[];
  /**
   * Starts to make all kept records pending again, durably and once per `id`, with `moveKept`. Returns undefined until all
   * are pending.
   */
  resend(id: string): Resend | undefined;
  /** A resend has kept records that are not pending yet. */
  readonly isMoving: boolean;
  /** Makes the next 2,000 of them pending in one transaction. */
  moveKept(): void;
  depth(): SpoolDepth;
  /** Moves the write-ahead log into the file and empties it, so that its space is free. Never throws. */
  shrinkLog(): void;
  close(): void;
}

/** Throws what node:sqlite throws; see `isCorrupt`. */
export function openDatabase(path: string, nowMs: () => number, limits: KeepLimits): Database {
  // Usage is private to the agent's user (SQLite gives -wal and -shm the same mode).
  closeSync(openSync(path, "a", 0o600));
  chmodSync(path, 0o600);
  const db = new DatabaseSync(path, { timeout: 2_000 });
  try {
    const check = db.prepare("PRAGMA quick_check(1)").get() as { quick_check: string };
    if (check.quick_check !== "ok") throw Object.assign(new Error(check.quick_check), { errcode: 11 });
    db.exec("PRAGMA journal_mode = WAL");
    const logBytes = maxLogBytesOf(path);
    db.exec(`PRAGMA wal_autocheckpoint = ${Math.floor(logBytes / pageBytes)}`);
    // A transaction larger than that may lengthen the file; the next checkpoint shortens it again.
    db.exec(`PRAGMA journal_size_limit = ${logBytes}`);
    db.exec(schema);
    return prepare(db, nowMs, { ...limits, maxBytes: maxKeptBytesOf(path, limits.maxBytes) });
  } catch (error) {
    db.close();
    throw error;
  }
}

function prepare(db: DatabaseSync, nowMs: () => number, limits: KeepLimits): Database {
  const putStart = db.prepare("INSERT OR REPLACE INTO starts VALUES (?, ?, ?, ?)");
  const dropStart = db.prepare("DELETE FROM starts WHERE request_id = ? AND attempt = ?");
  const putRecord = db.prepare("INSERT INTO records VALUES (?, ?, ?, ?)");
  const sizesOf = db.prepare(`SELECT lease_ids, count(*) AS n, sum(length(record)) AS bytes FROM records
    WHERE spool_id BETWEEN ? AND ? GROUP BY lease_ids`);
  const dropRecords = db.prepare("DELETE FROM records WHERE spool_id BETWEEN ? AND ?");
  const keepRecords = db.prepare(
    "INSERT OR REPLACE INTO kept SELECT spool_id, ?, lease_ids, record FROM records WHERE spool_id BETWEEN ? AND ?",
  );
  const oldestKept = db.prepare(
    "SELECT spool_id, kept_ms, length(record) AS bytes FROM kept ORDER BY spool_id LIMIT ?",
  );
  const dropKept = db.prepare("DELETE FROM kept WHERE spool_id <= ?");
  const metaOf = db.prepare("SELECT value FROM meta WHERE key = ?");
  const setMeta = db.prepare("INSERT OR REPLACE INTO meta VALUES (?, ?)");
  const oldest = db.prepare("SELECT created_ms FROM records ORDER BY spool_id LIMIT 1");
  const rowsAfter = db.prepare("SELECT spool_id, record FROM records WHERE spool_id > ? ORDER BY spool_id LIMIT ?");
  const rowsThrough = db.prepare("SELECT spool_id, record FROM records WHERE spool_id <= ? ORDER BY spool_id LIMIT ?");
  const nextKept =
    db.prepare(`SELECT lease_ids, count(*) AS n, max(spool_id) AS last, sum(length(record)) AS bytes FROM (
    SELECT spool_id, lease_ids, record FROM kept WHERE spool_id > ? AND spool_id <= ? ORDER BY spool_id LIMIT ?)
    GROUP BY lease_ids`);
  const lastKept = db.prepare("SELECT max(spool_id) AS last FROM kept");
  const copyKept = db.prepare(`INSERT OR IGNORE INTO records
    SELECT spool_id, kept_ms, lease_ids, record FROM kept WHERE spool_id > ? AND spool_id <= ?`);
  const dropMoved = db.prepare("DELETE FROM kept WHERE spool_id > ? AND spool_id <= ?");
  const allMeta = db.prepare("SELECT key, value FROM meta");
  const allStarts = db.prepare("SELECT request_id, attempt, lease_ids, record FROM starts");
  const leasesOfStarts = db.prepare("SELECT DISTINCT lease_ids FROM starts");
  const recordLeases = new LeaseCounts();
  let records = 0;
  let bytes = 0;
  for (const row of db.prepare("SELECT lease_ids, length(record) AS bytes FROM records").iterate()) {
    recordLeases.add(String(row["lease_ids"]), 1);
    records += 1;
    bytes += Number(row["bytes"]);
  }
  const keptTotal = db.prepare("SELECT coalesce(sum(length(record)), 0) AS bytes FROM kept").get();
  let keptBytes = Number(keptTotal?.["bytes"]);
  /** Changes of `recordLeases` by the transaction that runs. */
  let leaseChanges: [leaseIds: string, count: number][] = [];
  let isSynced: boolean | undefined;
  let move = storedMove();
  // A new file starts above every id of an earlier one: a late acknowledgement must never match a new record.
  const kept = Number(metaOf.get("spool_ids")?.["value"] ?? 0);
  let lastId = Math.max(kept, nowMs() * 1000);
  let reserved = kept;

  /** Returns an id that was never used, whatever was deleted and however the clock was set. */
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
    leaseChanges.push([leaseIds, 1]);
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
          for (const size of sizesOf.all(first, last) as unknown as Size[]) {
            leaseChanges.push([size.lease_ids, -size.n]);
            records -= size.n;
            bytes -= size.bytes;
            keptBytes += size.bytes;
          }
          keepRecords.run(nowMs(), first, last);
          dropRecords.run(first, last);
        }
        dropKeptRecords();
        return;
      }
      case "set":
        setMeta.run(w[1], w[2]);
    }
  }

  function storedMove(): Move | undefined {
    const text = metaOf.get("resend")?.["value"];
    return text === undefined ? undefined : JSON.parse(String(text));
  }

  const isUnmoved = (id: number) =>
    move !== undefined && !move.isMoved && id > Number(move.cursor) && id <= Number(move.throughId);

  function saveMove(next: Move): void {
    setMeta.run("resend", JSON.stringify(next));
    move = next;
  }

  function sync(durable: boolean): void {
    if (isSynced !== durable) db.exec(`PRAGMA synchronous = ${durable ? "FULL" : "NORMAL"}`);
    isSynced = durable;
  }

  /** Runs `work` in one transaction. After a failure the counters in memory are as they were before it. */
  function transaction<T>(work: () => T): T {
    const before = { records, bytes, keptBytes, lastId, reserved, move };
    leaseChanges = [];
    db.exec("BEGIN IMMEDIATE");
    try {
      const result = work();
      db.exec("COMMIT");
      for (const [leaseIds, count] of leaseChanges) recordLeases.add(leaseIds, count);
      return result;
    } catch (error) {
      ({ records, bytes, keptBytes, lastId, reserved, move } = before);
      if (db.isTransaction) db.exec("ROLLBACK");
      throw error;
    }
  }

  /** `isDiskFull`: drops kept records to free space for new ones. */
  function dropKeptRecords(isDiskFull = false): void {
    const youngestMs = isDiskFull ? Number.POSITIVE_INFINITY : nowMs() - limits.maxAgeMs;
    let last: { id: number; keptMs: number } | undefined;
    let dropped = 0;
    let unmoved = 0;
    for (const row of oldestKept.iterate(dropBatch)) {
      const keptMs = Number(row["kept_ms"]);
      if (keptMs >= youngestMs && keptBytes <= limits.maxBytes) break;
      if (isUnmoved(Number(row["spool_id"]))) {
        if (!isDiskFull) break;
        unmoved += 1;
      }
      keptBytes -= Number(row["bytes"]);
      last = { id: Number(row["spool_id"]), keptMs: Math.max(keptMs, last?.keptMs ?? 0) };
      dropped += 1;
    }
    if (!last) return;
    dropKept.run(last.id);
    const before = droppedSoFar();
    const throughMs = Math.max(before.throughMs, last.keptMs);
    setMeta.run("kept_dropped", JSON.stringify({ records: before.records + dropped, throughMs }));
    if (move && unmoved > 0) saveMove({ ...move, dropped: move.dropped + unmoved, droppedThroughMs: throughMs });
  }

  function droppedSoFar(): { records: number; throughMs: number } {
    const text = metaOf.get("kept_dropped")?.["value"];
    return text === undefined ? { records: 0, throughMs: 0 } : JSON.parse(String(text));
  }

  function resend(id: string): Resend | undefined {
    if (move?.id !== id) {
      const dropped = droppedSoFar();
      const next: Move = {
        id,
        records: 0,
        // Records that an earlier resend made pending belong to this one too.
        throughId: String(Math.max(Number(lastKept.get()?.["last"] ?? 0), Number(move?.throughId ?? 0))),
        dropped: dropped.records,
        droppedThroughMs: dropped.throughMs,
        cursor: "0",
        isMoved: false,
      };
      sync(true);
      // One statement: a failure leaves the earlier resend in place.
      saveMove(next);
    }
    if (!move?.isMoved) return undefined;
    const { records, throughId, dropped, droppedThroughMs } = move;
    return { id, records, throughId, dropped, droppedThroughMs };
  }

  function moveKept(): void {
    if (!move || move.isMoved) return;
    const { cursor, throughId } = move;
    const sizes = nextKept.all(Number(cursor), Number(throughId), moveBatch) as unknown as (Size & { last: number })[];
    const movedCount = sizes.reduce((sum, { n }) => sum + n, 0);
    const isMoved = movedCount < moveBatch;
    // A batch may be lost with the machine, and then its cursor is lost too. The last commit makes all of them durable.
    sync(isMoved);
    const next = { ...move, records: move.records + movedCount, isMoved };
    transaction(() => {
      const last = sizes.reduce((max, size) => Math.max(max, size.last), Number(cursor));
      for (const size of sizes) leaseChanges.push([size.lease_ids, size.n]);
      copyKept.run(Number(cursor), last);
      dropMoved.run(Number(cursor), last);
      saveMove({ ...next, cursor: String(last) });
    });
    for (const size of sizes) {
      records += size.n;
      bytes += size.bytes;
      keptBytes -= size.bytes;
    }
  }

  function pending(limit: number): PendingRecord[] {
    const through = Number(move?.throughId ?? 0);
    const resent = rowsThrough.all(through, limit);
    const fresh = resent.length === 0 || limit > 1 ? rowsAfter.all(through, limit) : [];
    const rows: typeof resent = [];
    for (let at = 0; rows.length < limit && at < Math.max(resent.length, fresh.length); at += 1)
      for (const row of [resent[at], fresh[at]]) if (row && rows.length < limit) rows.push(row);
    return rows.map((row) => ({ spoolId: String(row["spool_id"]), json: String(row["record"]) }));
  }

  function write(batch: readonly Write[], ends: Iterable<End>, durable: boolean): number {
    sync(durable);
    try {
      return transaction(() => {
        const at = nowMs();
        // Start rows first: a record deletes its own.
        for (const w of batch) apply(w);
        for (const end of ends) keep(end, at);
        return lastId;
      });
    } catch (error) {
      if (isFull(error)) freeSpace();
      throw error;
    }
  }

  /** The next attempt finds the pages of the oldest kept records free. */
  function freeSpace(): void {
    try {
      transaction(() => dropKeptRecords(true));
    } catch {
      // Not even a deletion can be written; the next commit reports the error.
    }
  }

  return {
    write,
    resend,
    moveKept,
    get isMoving() {
      return move !== undefined && !move.isMoved;
    },
    loseStarts: () => {
      const starts = allStarts.all() as unknown as StartRow[];
      const lost = starts.map((row) => lostEnd(row, nowMs()));
      if (lost.length > 0) write([], lost, true);
      return lost.length;
    },
    meta: () => Object.fromEntries(allMeta.all().map((row) => [row["key"], row["value"]])),
    pending,
    leaseIds: () => {
      const ofStarts = leasesOfStarts.all().map((row) => String(row["lease_ids"]));
      return [...new Set([...ofStarts, ...recordLeases.sets()].flatMap((set) => set.split(",").filter(Boolean)))];
    },
    depth: () => ({ records, bytes, oldestMs: records === 0 ? 0 : Number(oldest.get()?.["created_ms"] ?? 0) }),
    shrinkLog: () => {
      try {
        db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
      } catch {
        // The next commit reports the error.
      }
    },
    close: () => db.close(),
  };
}

/** Returns consecutive ids as first and last: records acknowledged together were mostly written together. */
function runsOf(spoolIds: readonly string[]): [number, number][] {
  const runs: [number, number][] = [];
  for (const id of spoolIds.map(Number).sort((a, b) => a - b)) {
    const open = runs.at(-1);
    if (open && id - open[1] <= 1) open[1] = id;
    else runs.push([id, id]);
  }
  return runs;
}

/** Renames the file and its journals. Returns the new name of the file. */
export function moveAside(path: string, nowMs: number): string {
  const suffix = `.corrupt-${new Date(nowMs).toISOString().replaceAll(":", "-")}`;
  for (const tail of ["", "-wal", "-shm"])
    if (existsSync(path + tail)) renameSync(path + tail, `${path}${suffix}${tail}`);
  return path + suffix;
}

interface StartRow {
  readonly request_id: string;
  readonly attempt: number;
  readonly lease_ids: string;
  readonly record: string;
}

/** The start row's estimate of the prompt stays: it is billed if the gateway delivered output, as without a start row. */
const { inputTokens: _, ...noOutput } = noTokens;

/** Returns the usage record of a request that the agent's end cut: its start row with reason `lost`. */
function lostEnd(start: StartRow, endedAtMs: number): End {
  const record = {
    ...(JSON.parse(start.record) as object),
    endedAtMs: String(endedAtMs),
    ...noOutput,
    source: "estimated",
    endReason: "lost",
  };
  const { request_id: requestId, attempt, lease_ids: leaseIds } = start;
  return { requestId, attempt, leaseIds, record: JSON.stringify(record), hadStart: true };
}

/**
 * Counts the records of each set of leases, so that the sets in use are known without reading every record. A set is the text stored
 * with a record: lease ids with commas between them.
 */
class LeaseCounts {
  readonly #counts = new Map<string, number>();

  /** `count` may be negative. */
  add(leaseIds: string, count: number): void {
    const next = (this.#counts.get(leaseIds) ?? 0) + count;
    if (next > 0) this.#counts.set(leaseIds, next);
    else this.#counts.delete(leaseIds);
  }

  sets(): IterableIterator<string> {
    return this.#counts.keys();
  }
}

/** Primary code, without the detail of an extended code. */
const primaryCode = (error: unknown): number => ((error as { errcode?: number }).errcode ?? 0) & 0xff;

const isFull = (error: unknown): boolean => primaryCode(error) === 13;

export const isIoError = (error: unknown): boolean => primaryCode(error) === 10;

/** SQLITE_CORRUPT or SQLITE_NOTADB: a retry does not help. */
export const isCorrupt = (error: unknown): boolean => [11, 26].includes(primaryCode(error));

/** SQLITE_FULL, or SQLITE_IOERR: on a full disk a file that SQLite maps into memory fails with the latter. */
export const isDiskProblem = (error: unknown): boolean => isFull(error) || isIoError(error);
