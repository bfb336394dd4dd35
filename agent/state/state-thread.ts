// Main thread's end of the database thread. One message per commit: writes that arrive while a commit runs form the next batch.
// A start row whose end arrives before it was sent is never written.
import { Worker } from "node:worker_threads";
import type { Logger } from "pino";
import { unreachable } from "../../proto/unreachable.ts";
import type { PendingRecord } from "../../proto/usage-record.ts";
import type { RecordRow, UsageSpool } from "../ingress/spool.ts";
import type { KeepLimits } from "./database.ts";
import {
  endLine,
  type FromWorker,
  type MetaKey,
  type Resend,
  type SpoolDepth,
  type ToWorker,
  type Write,
} from "./state-messages.ts";

/**
 * Delay of start rows: a request that ends sooner needs none, and one cut by a kill has delivered little. Acknowledgements wait
 * as long if no other commit includes them: without them a restart only sends the records again.
 */
const startDelayMs = 50;
/**
 * Under load a commit waits at most this long for others to share it, like PostgreSQL's commit_delay: fsync and the two thread
 * switches cost more than the rest of a request. Without other running requests it does not wait.
 */
const shareMs = 16;
/** Ends further apart than this do not wait to share a commit. */
const sharedGapMs = 8;

interface Start {
  /** Cleared with its entry: see proto/slot-list.ts for what tables keep. */
  row: RecordRow | undefined;
  readonly atMs: number;
}

interface Waiting {
  readonly write: number;
  /** JSON of the record that becomes pending with this write. */
  readonly record: string | undefined;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

const startWrite = (row: RecordRow): Write => [
  "start",
  row.requestId,
  row.attempt,
  row.leaseIds.join(","),
  textOf(row),
];

const textOf = ({ json }: RecordRow): string => (typeof json === "string" ? json : json());

/** Resolves when the file is open and start rows of an earlier run are durable records. Rejects when it cannot be opened. */
export async function startStateThread(
  path: string,
  log: Logger,
  keep: KeepLimits,
  nowMs: () => number,
): Promise<StateThread> {
  const opening = Promise.withResolvers<void>();
  const thread = new StateThread(path, log, keep, nowMs, opening);
  await opening.promise;
  return thread;
}

export class StateThread implements UsageSpool {
  readonly #recent = new Unacknowledged();
  readonly #log: Logger;
  readonly #nowMs: () => number;
  readonly #path: string;
  readonly #opening: Pick<PromiseWithResolvers<void>, "resolve" | "reject">;
  readonly #worker: Worker;
  readonly #starts = new Map<string, Start>();
  #acks: string[] = [];
  #writes: Write[] = [];
  #ends = "";
  #waiting: Waiting[] = [];
  #lastWrite = 0;
  #isBusy = false;
  #isWritable = true;
  #depth: SpoolDepth = { records: 0, bytes: 0, oldestMs: 0 };
  #meta: Readonly<Partial<Record<MetaKey, string>>> = {};
  #timer: NodeJS.Timeout | undefined;
  #sharing: NodeJS.Timeout | undefined;
  #immediate: NodeJS.Immediate | undefined;
  #closed: (() => void) | undefined;
  /** Reason why the thread accepts no more writes or queries. */
  #ended: Error | undefined;
  #lastQuery = 0;
  /** Number of started requests that may soon have a record to write. */
  #running = 0;
  #lastEndMs = 0;
  #meanGapMs = Number.POSITIVE_INFINITY;
  readonly #queries = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
  readonly #listeners: (() => void)[] = [];

  constructor(
    path: string,
    log: Logger,
    keep: KeepLimits,
    nowMs: () => number,
    opening: Pick<PromiseWithResolvers<void>, "resolve" | "reject">,
  ) {
    this.#path = path;
    this.#log = log;
    this.#nowMs = nowMs;
    this.#opening = opening;
    this.#worker = new Worker(new URL("./state-worker.ts", import.meta.url), { workerData: { path, keep } });
    this.#worker.on("message", (message: FromWorker) => this.#take(message));
    this.#worker.on("error", (error) => {
      log.fatal({ err: error }, "the state thread died");
      opening.reject(error);
      this.#fail(error instanceof Error ? error : new Error(String(error)));
      // An agent that cannot record usage would never admit a request: end, so that the service manager starts it again.
      throw error;
    });
    this.#worker.on("exit", () => this.#fail(new Error("the state thread has ended")));
  }

  get isWritable(): boolean {
    return this.#isWritable;
  }

  readonly depth = () => {
    const { records, bytes, oldestMs } = this.#depth;
    return { records, bytes, oldestAgeSeconds: oldestMs === 0 ? 0 : Math.max(0, (this.#nowMs() - oldestMs) / 1000) };
  };

  get meta(): Readonly<Partial<Record<MetaKey, string>>> {
    return this.#meta;
  }

  start(row: RecordRow): void {
    this.#starts.set(`${row.requestId}.${row.attempt}`, { row, atMs: performance.now() });
    this.#running += 1;
    this.#schedule();
  }

  end(row: RecordRow): Promise<void> {
    const { requestId, attempt, leaseIds } = row;
    this.#sawEnd();
    const key = `${requestId}.${attempt}`;
    const start = this.#starts.get(key);
    if (start) this.#endStart(key, start);
    const hadStart = start === undefined;
    const json = textOf(row);
    this.#ends += endLine({ requestId, attempt, leaseIds: leaseIds.join(","), record: json, hadStart });
    return this.#put(undefined, json);
  }

  /** Does not wait: an acknowledgement lost with the machine only causes a resend. */
  async acknowledge(spoolIds: readonly string[]): Promise<void> {
    this.#recent.acknowledged(spoolIds);
    for (const id of spoolIds) this.#acks.push(id);
    this.#schedule();
  }

  write(write: Write): Promise<void> {
    return this.#put(write);
  }

  async pending(limit: number): Promise<readonly PendingRecord[]> {
    const recent = this.#recent.oldest(limit);
    if (recent) return recent;
    // The reply must not contain records that were just acknowledged.
    if (this.#acks.length > 0) this.#flush(false);
    return this.#ask((query) => ({ kind: "pending", query, limit }));
  }

  openLeaseIds(): Promise<readonly string[]> {
    // The reply must contain the leases of every running request.
    this.#flush(true);
    return this.#ask((query) => ({ kind: "leases", query }));
  }

  /** Until it resolves other writes go on, and a restart continues it. */
  resend(id: string): Promise<Resend> {
    // Write the acknowledgements first: their records are then among the kept ones.
    this.#flush(true);
    return this.#ask((query) => ({ kind: "resend", query, id }));
  }

  onPending(listener: () => void): void {
    this.#listeners.push(listener);
    if (this.#depth.records > 0) queueMicrotask(listener);
  }

  /** Writes the waiting batch, then ends the thread. Writes that still fail are rejected. */
  async close(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#closed = resolve;
    this.#flush(true);
    this.#post({ kind: "close" });
    await promise;
    this.#fail(new Error("the state database is closed"));
  }

  #post(message: ToWorker): void {
    this.#worker.postMessage(message);
  }

  #flush(all: boolean): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#sharing);
    clearImmediate(this.#immediate);
    this.#timer = undefined;
    this.#sharing = undefined;
    this.#immediate = undefined;
    const before = performance.now() - startDelayMs;
    const batch: Write[] = [];
    for (const [key, start] of this.#starts) {
      if (!all && start.atMs > before) break;
      batch.push(startWrite(start.row as RecordRow));
      this.#endStart(key, start);
    }
    for (const write of this.#writes) batch.push(write);
    this.#writes = [];
    if (this.#acks.length > 0) batch.push(["acknowledge", this.#acks]);
    this.#acks = [];
    if (batch.length === 0 && this.#ends === "") {
      this.#schedule();
      return;
    }
    this.#isBusy = true;
    this.#post({ kind: "write", through: this.#lastWrite, writes: batch, ends: this.#ends });
    this.#ends = "";
  }

  #written(through: number, lastId: number): boolean {
    this.#isBusy = false;
    const done = this.#waiting.findIndex((w) => w.write > through);
    const settled = this.#waiting.splice(0, done < 0 ? this.#waiting.length : done);
    const fresh = settled.filter((w) => w.record).length;
    let id = lastId - fresh;
    for (const w of settled) {
      if (w.record) this.#recent.add(++id, w.record);
      w.resolve();
    }
    this.#schedule();
    return fresh > 0;
  }

  #schedule(): void {
    if (this.#isBusy || this.#immediate) return;
    const flush = () => this.#flush(false);
    if (this.#writes.length === 0 && this.#ends === "") {
      if (this.#starts.size > 0 || this.#acks.length > 0) this.#timer ??= setTimeout(flush, startDelayMs).unref();
    } else if (this.#running > 0 && this.#meanGapMs < sharedGapMs) this.#sharing ??= setTimeout(flush, shareMs);
    else {
      // Also cuts short a wait that began while others still ran.
      this.#immediate = setImmediate(flush);
    }
  }

  #endStart(key: string, start: Start): void {
    this.#starts.delete(key);
    start.row = undefined;
  }

  #sawEnd(): void {
    const now = performance.now();
    const gap = Math.min(100, now - this.#lastEndMs);
    this.#lastEndMs = now;
    this.#meanGapMs = this.#meanGapMs === Number.POSITIVE_INFINITY ? gap : this.#meanGapMs * 0.9 + gap * 0.1;
    this.#running = Math.max(0, this.#running - 1);
  }

  #put(write: Write | undefined, record?: string): Promise<void> {
    if (this.#ended) return Promise.reject(this.#ended);
    if (write) this.#writes.push(write);
    this.#lastWrite += 1;
    const number = this.#lastWrite;
    this.#schedule();
    return new Promise((resolve, reject) => this.#waiting.push({ write: number, record, resolve, reject }));
  }

  #ask<T>(message: (query: number) => ToWorker): Promise<T> {
    if (this.#ended) return Promise.reject(this.#ended);
    const query = ++this.#lastQuery;
    this.#post(message(query));
    return new Promise<T>((resolve, reject) => this.#queries.set(query, { resolve, reject }));
  }

  #fail(error: Error): void {
    this.#ended ??= error;
    this.#isWritable = false;
    for (const w of this.#waiting) w.reject(error);
    for (const q of this.#queries.values()) q.reject(error);
    this.#waiting = [];
    this.#queries.clear();
    this.#closed?.();
  }

  /** The depth is not enough: the commit that adds a record can delete more acknowledged ones. */
  #sawDepth(now: SpoolDepth, hasFresh: boolean): void {
    const hasNews = hasFresh || now.records > this.#depth.records;
    this.#depth = now;
    if (now.records === 0) this.#recent.emptied();
    if (hasNews) for (const listener of this.#listeners) listener();
  }

  #sawFailure(reason: string): void {
    if (this.#isWritable)
      this.#log.error({ reason }, "cannot write usage records; no request is admitted until they can be written");
    this.#isWritable = false;
  }

  #settle(query: number, end: (asked: { resolve: (value: never) => void; reject: (error: Error) => void }) => void) {
    const asked = this.#queries.get(query);
    this.#queries.delete(query);
    if (asked) end(asked);
  }

  #take(message: FromWorker) {
    const recent = this.#recent;
    const log = this.#log;
    switch (message.kind) {
      case "opened":
        this.#meta = message.meta;
        this.#depth = message.depth;
        if (message.depth.records === 0) recent.emptied();
        if (message.lost > 0) log.warn({ lost: message.lost }, "requests of an earlier run ended without a record");
        return this.#opening.resolve();
      case "not_opened":
        return this.#opening.reject(
          new Error(
            `cannot open the agent's state ${this.#path}: ${message.reason}; check space and permissions of its folder`,
          ),
        );
      case "moved_aside":
        return log.error(
          { movedTo: message.to, reason: message.reason },
          "the agent's state was corrupt and was moved aside; unacknowledged usage in that file will not be billed",
        );
      case "written":
        if (message.isLow) this.#sawFailure("the disk is full, and the reserved space is in use");
        else if (!this.#isWritable) log.info("usage records can be written again");
        this.#isWritable = !message.isLow;
        return this.#sawDepth(message.depth, this.#written(message.through, message.lastId));
      case "failing":
        return this.#sawFailure(message.reason);
      case "unanswered":
        return this.#settle(message.query, ({ reject }) => reject(new Error(message.reason)));
      case "answered":
        return this.#settle(message.query, ({ resolve }) => resolve(message.answer as never));
      case "moved":
        recent.incomplete();
        return this.#sawDepth(message.depth, true);
      case "not_moved":
        return log.warn({ reason: message.reason }, "could not make kept usage records pending; will retry");
      case "closed":
        return this.#closed?.();
      default:
        return unreachable(message);
    }
  }
}

/**
 * Texts of durable records that are not yet acknowledged: reading one from the file would cost a copy between threads, and objects
 * would cost the garbage collector. Above the bound and after a restart the file is read.
 */
export class Unacknowledged {
  #records: PendingRecord[] = [];
  readonly #maxRecords: number;
  /** True while this contains every record of the file. */
  #isWhole = false;

  constructor(maxRecords = 10_000) {
    this.#maxRecords = maxRecords;
  }

  /** `json` has just become durable. */
  add(spoolId: number, json: string): void {
    if (!this.#isWhole) return;
    if (this.#records.length < this.#maxRecords) this.#records.push({ spoolId: String(spoolId), json });
    else this.incomplete();
  }

  acknowledged(spoolIds: readonly string[]): void {
    const gone = new Set(spoolIds);
    this.#records = this.#records.filter(({ spoolId }) => !gone.has(spoolId));
  }

  /** The file holds records that are not here. */
  incomplete(): void {
    this.#isWhole = false;
    this.#records = [];
  }

  /** The file holds no record. */
  emptied(): void {
    this.#isWhole = true;
    this.#records = [];
  }

  /** Undefined: read the file. */
  oldest(limit: number): readonly PendingRecord[] | undefined {
    return this.#isWhole ? this.#records.slice(0, limit) : undefined;
  }
}
