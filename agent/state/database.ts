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

/** Acknowledged records are kept, so that a control plane whose database was restored can request them again. */
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
    return new Database(db, nowMs, { ...limits, maxBytes: maxKeptBytesOf(path, limits.maxBytes) });
  } catch (error) {
    db.close();
    throw error;
  }
}

function statementsOf(db: DatabaseSync) {
  return {
    putStart: db.prepare("INSERT OR REPLACE INTO starts VALUES (?, ?, ?, ?)"),
    dropStart: db.prepare("DELETE FROM starts WHERE request_id = ? AND attempt = ?"),
    putRecord: db.prepare("INSERT INTO records VALUES (?, ?, ?, ?)"),
    sizesOf: db.prepare(`SELECT lease_ids, count(*) AS n, sum(length(record)) AS bytes FROM records
    WHERE spool_id BETWEEN ? AND ? GROUP BY lease_ids`),
    dropRecords: db.prepare("DELETE FROM records WHERE spool_id BETWEEN ? AND ?"),
    keepRecords: db.prepare(
      "INSERT OR REPLACE INTO kept SELECT spool_id, ?, lease_ids, record FROM records WHERE spool_id BETWEEN ? AND ?",
    ),
    oldestKept: db.prepare("SELECT spool_id, kept_ms, length(record) AS bytes FROM kept ORDER BY spool_id LIMIT ?"),
    dropKept: db.prepare("DELETE FROM kept WHERE spool_id <= ?"),
    metaOf: db.prepare("SELECT value FROM meta WHERE key = ?"),
    setMeta: db.prepare("INSERT OR REPLACE INTO meta VALUES (?, ?)"),
    oldest: db.prepare("SELECT created_ms FROM records ORDER BY spool_id LIMIT 1"),
    rowsAfter: db.prepare("SELECT spool_id, record FROM records WHERE spool_id > ? ORDER BY spool_id LIMIT ?"),
    rowsThrough: db.prepare("SELECT spool_id, record FROM records WHERE spool_id <= ? ORDER BY spool_id LIMIT ?"),
    nextKept: db.prepare(`SELECT lease_ids, count(*) AS n, max(spool_id) AS last, sum(length(record)) AS bytes FROM (
    SELECT spool_id, lease_ids, record FROM kept WHERE spool_id > ? AND spool_id <= ? ORDER BY spool_id LIMIT ?)
    GROUP BY lease_ids`),
    lastKept: db.prepare("SELECT max(spool_id) AS last FROM kept"),
    copyKept: db.prepare(`INSERT OR IGNORE INTO records
    SELECT spool_id, kept_ms, lease_ids, record FROM kept WHERE spool_id > ? AND spool_id <= ?`),
    dropMoved: db.prepare("DELETE FROM kept WHERE spool_id > ? AND spool_id <= ?"),
    allMeta: db.prepare("SELECT key, value FROM meta"),
    allStarts: db.prepare("SELECT request_id, attempt, lease_ids, record FROM starts"),
    leasesOfStarts: db.prepare("SELECT DISTINCT lease_ids FROM starts"),
  };
}

export class Database {
  readonly #db: DatabaseSync;
  readonly #nowMs: () => number;
  readonly #limits: KeepLimits;
  readonly #sql: ReturnType<typeof statementsOf>;
  readonly #recordLeases = new LeaseCounts();
  #records = 0;
  #bytes = 0;
  #keptBytes: number;
  /** Changes of `recordLeases` by the transaction that runs. */
  #leaseChanges: [leaseIds: string, count: number][] = [];
  #isSynced: boolean | undefined;
  #move: Move | undefined;
  #lastId: number;
  #reserved: number;

  constructor(db: DatabaseSync, nowMs: () => number, limits: KeepLimits) {
    this.#db = db;
    this.#nowMs = nowMs;
    this.#limits = limits;
    this.#sql = statementsOf(db);
    for (const row of db.prepare("SELECT lease_ids, length(record) AS bytes FROM records").iterate()) {
      this.#recordLeases.add(String(row["lease_ids"]), 1);
      this.#records += 1;
      this.#bytes += Number(row["bytes"]);
    }
    const keptTotal = db.prepare("SELECT coalesce(sum(length(record)), 0) AS bytes FROM kept").get();
    this.#keptBytes = Number(keptTotal?.["bytes"]);
    this.#move = this.#storedMove();
    // A new file starts above every id of an earlier one: a late acknowledgement must never match a new record.
    const kept = Number(this.#sql.metaOf.get("spool_ids")?.["value"] ?? 0);
    this.#lastId = Math.max(kept, nowMs() * 1000);
    this.#reserved = kept;
  }

  /** Returns an id that was never used, whatever was deleted and however the clock was set. */
  #nextId(): number {
    this.#lastId += 1;
    if (this.#lastId > this.#reserved) {
      this.#reserved = this.#lastId + idBlock;
      this.#sql.setMeta.run("spool_ids", String(this.#reserved));
    }
    return this.#lastId;
  }

  #keep({ requestId, attempt, leaseIds, record, hadStart }: End, at: number): void {
    if (hadStart) this.#sql.dropStart.run(requestId, attempt);
    this.#sql.putRecord.run(this.#nextId(), at, leaseIds, record);
    this.#leaseChanges.push([leaseIds, 1]);
    this.#records += 1;
    this.#bytes += record.length;
  }

  #apply(w: Write): void {
    switch (w[0]) {
      case "start":
        this.#sql.putStart.run(w[1], w[2], w[3], w[4]);
        return;
      case "acknowledge": {
        for (const [first, last] of runsOf(w[1])) {
          for (const size of this.#sql.sizesOf.all(first, last) as unknown as Size[]) {
            this.#leaseChanges.push([size.lease_ids, -size.n]);
            this.#records -= size.n;
            this.#bytes -= size.bytes;
            this.#keptBytes += size.bytes;
          }
          this.#sql.keepRecords.run(this.#nowMs(), first, last);
          this.#sql.dropRecords.run(first, last);
        }
        this.#dropKeptRecords();
        return;
      }
      case "set":
        this.#sql.setMeta.run(w[1], w[2]);
    }
  }

  #storedMove(): Move | undefined {
    const text = this.#sql.metaOf.get("resend")?.["value"];
    return text === undefined ? undefined : JSON.parse(String(text));
  }

  #isUnmoved(id: number): boolean {
    return (
      this.#move !== undefined &&
      !this.#move.isMoved &&
      id > Number(this.#move.cursor) &&
      id <= Number(this.#move.throughId)
    );
  }

  #saveMove(next: Move): void {
    this.#sql.setMeta.run("resend", JSON.stringify(next));
    this.#move = next;
  }

  #sync(durable: boolean): void {
    if (this.#isSynced !== durable) this.#db.exec(`PRAGMA synchronous = ${durable ? "FULL" : "NORMAL"}`);
    this.#isSynced = durable;
  }

  /** Runs `work` in one transaction. After a failure the counters in memory are as they were before it. */
  #transaction<T>(work: () => T): T {
    const before = {
      records: this.#records,
      bytes: this.#bytes,
      keptBytes: this.#keptBytes,
      lastId: this.#lastId,
      reserved: this.#reserved,
      move: this.#move,
    };
    this.#leaseChanges = [];
    this.#db.exec("BEGIN IMMEDIATE");
    try {
      const result = work();
      this.#db.exec("COMMIT");
      for (const [leaseIds, count] of this.#leaseChanges) this.#recordLeases.add(leaseIds, count);
      return result;
    } catch (error) {
      ({
        records: this.#records,
        bytes: this.#bytes,
        keptBytes: this.#keptBytes,
        lastId: this.#lastId,
        reserved: this.#reserved,
        move: this.#move,
      } = before);
      if (this.#db.isTransaction) this.#db.exec("ROLLBACK");
      throw error;
    }
  }

  /** `isDiskFull`: drops kept records to free space for new ones. */
  #dropKeptRecords(isDiskFull = false): void {
    const youngestMs = isDiskFull ? Number.POSITIVE_INFINITY : this.#nowMs() - this.#limits.maxAgeMs;
    let last: { id: number; keptMs: number } | undefined;
    let dropped = 0;
    let unmoved = 0;
    for (const row of this.#sql.oldestKept.iterate(dropBatch)) {
      const keptMs = Number(row["kept_ms"]);
      if (keptMs >= youngestMs && this.#keptBytes <= this.#limits.maxBytes) break;
      if (this.#isUnmoved(Number(row["spool_id"]))) {
        if (!isDiskFull) break;
        unmoved += 1;
      }
      this.#keptBytes -= Number(row["bytes"]);
      last = { id: Number(row["spool_id"]), keptMs: Math.max(keptMs, last?.keptMs ?? 0) };
      dropped += 1;
    }
    if (!last) return;
    this.#sql.dropKept.run(last.id);
    const before = this.#droppedSoFar();
    const throughMs = Math.max(before.throughMs, last.keptMs);
    this.#sql.setMeta.run("kept_dropped", JSON.stringify({ records: before.records + dropped, throughMs }));
    if (this.#move && unmoved > 0)
      this.#saveMove({ ...this.#move, dropped: this.#move.dropped + unmoved, droppedThroughMs: throughMs });
  }

  #droppedSoFar(): { records: number; throughMs: number } {
    const text = this.#sql.metaOf.get("kept_dropped")?.["value"];
    return text === undefined ? { records: 0, throughMs: 0 } : JSON.parse(String(text));
  }

  /**
   * Starts to make all kept records pending again, durably and once per `id`, with `moveKept`. Returns undefined until all
   * are pending.
   */
  resend(id: string): Resend | undefined {
    if (this.#move?.id !== id) {
      const dropped = this.#droppedSoFar();
      const next: Move = {
        id,
        records: 0,
        // Records that an earlier resend made pending belong to this one too.
        throughId: String(
          Math.max(Number(this.#sql.lastKept.get()?.["last"] ?? 0), Number(this.#move?.throughId ?? 0)),
        ),
        dropped: dropped.records,
        droppedThroughMs: dropped.throughMs,
        cursor: "0",
        isMoved: false,
      };
      this.#sync(true);
      // One statement: a failure leaves the earlier resend in place.
      this.#saveMove(next);
    }
    if (!this.#move?.isMoved) return undefined;
    const { records, throughId, dropped, droppedThroughMs } = this.#move;
    return { id, records, throughId, dropped, droppedThroughMs };
  }

  /** Makes the next 2,000 of them pending in one transaction. */
  moveKept(): void {
    if (!this.#move || this.#move.isMoved) return;
    const { cursor, throughId } = this.#move;
    const sizes = this.#sql.nextKept.all(Number(cursor), Number(throughId), moveBatch) as unknown as (Size & {
      last: number;
    })[];
    const movedCount = sizes.reduce((sum, { n }) => sum + n, 0);
    const isMoved = movedCount < moveBatch;
    // A batch may be lost with the machine, and then its cursor is lost too. The last commit makes all of them durable.
    this.#sync(isMoved);
    const next = { ...this.#move, records: this.#move.records + movedCount, isMoved };
    this.#transaction(() => {
      const last = sizes.reduce((max, size) => Math.max(max, size.last), Number(cursor));
      for (const size of sizes) this.#leaseChanges.push([size.lease_ids, size.n]);
      this.#sql.copyKept.run(Number(cursor), last);
      this.#sql.dropMoved.run(Number(cursor), last);
      this.#saveMove({ ...next, cursor: String(last) });
    });
    for (const size of sizes) {
      this.#records += size.n;
      this.#bytes += size.bytes;
      this.#keptBytes -= size.bytes;
    }
  }

  /** Oldest first. While a resend has records, these and newer ones alternate, starting with the resend. */
  pending(limit: number): PendingRecord[] {
    const through = Number(this.#move?.throughId ?? 0);
    const resent = this.#sql.rowsThrough.all(through, limit);
    const fresh = resent.length === 0 || limit > 1 ? this.#sql.rowsAfter.all(through, limit) : [];
    const rows: typeof resent = [];
    for (let at = 0; rows.length < limit && at < Math.max(resent.length, fresh.length); at += 1)
      for (const row of [resent[at], fresh[at]]) if (row && rows.length < limit) rows.push(row);
    return rows.map((row) => ({ spoolId: String(row["spool_id"]), json: String(row["record"]) }));
  }

  /**
   * Runs one transaction and returns the spool id of its last record; its records have consecutive ids. `durable`: fsynced on
   * return. On an error it throws and nothing is written.
   */
  write(batch: readonly Write[], ends: Iterable<End>, durable: boolean): number {
    this.#sync(durable);
    try {
      return this.#transaction(() => {
        const at = this.#nowMs();
        // Start rows first: a record deletes its own.
        for (const w of batch) this.#apply(w);
        for (const end of ends) this.#keep(end, at);
        return this.#lastId;
      });
    } catch (error) {
      if (isFull(error)) this.#freeSpace();
      throw error;
    }
  }

  /** The next attempt finds the pages of the oldest kept records free. */
  #freeSpace(): void {
    try {
      this.#transaction(() => this.#dropKeptRecords(true));
    } catch {
      // Not even a deletion can be written; the next commit reports the error.
    }
  }

  /** A resend has kept records that are not pending yet. */
  get isMoving() {
    return this.#move !== undefined && !this.#move.isMoved;
  }

  /** Turns every start row into a durable record of reason `lost`. Returns their number. */
  readonly loseStarts = () => {
    const starts = this.#sql.allStarts.all() as unknown as StartRow[];
    const lost = starts.map((row) => lostEnd(row, this.#nowMs()));
    if (lost.length > 0) this.write([], lost, true);
    return lost.length;
  };

  readonly meta = (): Partial<Record<MetaKey, string>> =>
    Object.fromEntries(this.#sql.allMeta.all().map((row) => [row["key"], row["value"]]));

  readonly leaseIds = () => {
    const ofStarts = this.#sql.leasesOfStarts.all().map((row) => String(row["lease_ids"]));
    return [...new Set([...ofStarts, ...this.#recordLeases.sets()].flatMap((set) => set.split(",").filter(Boolean)))];
  };

  readonly depth = (): SpoolDepth => ({
    records: this.#records,
    bytes: this.#bytes,
    oldestMs: this.#records === 0 ? 0 : Number(this.#sql.oldest.get()?.["created_ms"] ?? 0),
  });

  /** Moves the write-ahead log into the file and empties it, so that its space is free. Never throws. */
  readonly shrinkLog = () => {
    try {
      this.#db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    } catch {
      // The next commit reports the error.
    }
  };

  readonly close = () => this.#db.close();
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
