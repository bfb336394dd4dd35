// Main thread's end of the database thread. One message per commit: writes that arrive while a commit runs form the next batch.
// A start row whose end arrives before it was sent is never written.
import { Worker } from "node:worker_threads";
import type { Logger } from "pino";
import { unreachable } from "../../proto/unreachable.ts";
import type { PendingRecord } from "../../proto/usage-record.ts";
import type { RecordRow } from "../ingress/spool.ts";
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

export interface StateThread {
  readonly isWritable: boolean;
  readonly depth: SpoolDepth;
  readonly meta: Readonly<Partial<Record<MetaKey, string>>>;
  readonly recent: Unacknowledged;
  start(row: RecordRow): void;
  end(row: RecordRow): Promise<void>;
  /** Does not wait: an acknowledgement lost with the machine only causes a resend. */
  acknowledge(spoolIds: readonly string[]): void;
  write(write: Write): Promise<void>;
  pending(limit: number): Promise<readonly PendingRecord[]>;
  leaseIds(): Promise<readonly string[]>;
  /**
   * Makes acknowledged records that are kept pending again, durably and once per `id`. Resolves when all are; until then
   * other writes go on, and a restart continues it.
   */
  resend(id: string): Promise<Resend>;
  onPending(listener: () => void): void;
  /** Writes the waiting batch, then ends the thread. Writes that still fail are rejected. */
  close(): Promise<void>;
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
export function startStateThread(path: string, log: Logger, keep: KeepLimits): Promise<StateThread> {
  const worker = new Worker(new URL("./state-worker.ts", import.meta.url), { workerData: { path, keep } });
  const post = (message: ToWorker) => worker.postMessage(message);
  const starts = new Map<string, Start>();
  const recent = new Unacknowledged();
  let acks: string[] = [];
  let writes: Write[] = [];
  let ends = "";
  let waiting: Waiting[] = [];
  let lastWrite = 0;
  let isBusy = false;
  let isWritable = true;
  let depth: SpoolDepth = { records: 0, bytes: 0, oldestMs: 0 };
  let meta: Readonly<Partial<Record<MetaKey, string>>> = {};
  let timer: NodeJS.Timeout | undefined;
  let sharing: NodeJS.Timeout | undefined;
  let immediate: NodeJS.Immediate | undefined;
  let closed: (() => void) | undefined;
  /** Reason why the thread accepts no more writes or queries. */
  let ended: Error | undefined;
  let lastQuery = 0;
  /** Number of started requests that may soon have a record to write. */
  let running = 0;
  let lastEndMs = 0;
  let meanGapMs = Number.POSITIVE_INFINITY;
  const queries = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
  const listeners: (() => void)[] = [];

  function flush(all: boolean): void {
    clearTimeout(timer);
    clearTimeout(sharing);
    clearImmediate(immediate);
    timer = undefined;
    sharing = undefined;
    immediate = undefined;
    const before = performance.now() - startDelayMs;
    const batch: Write[] = [];
    for (const [key, start] of starts) {
      if (!all && start.atMs > before) break;
      batch.push(startWrite(start.row as RecordRow));
      endStart(key, start);
    }
    for (const write of writes) batch.push(write);
    writes = [];
    if (acks.length > 0) batch.push(["acknowledge", acks]);
    acks = [];
    if (batch.length === 0 && ends === "") {
      schedule();
      return;
    }
    isBusy = true;
    post({ kind: "write", through: lastWrite, writes: batch, ends });
    ends = "";
  }

  function written(through: number, lastId: number): boolean {
    isBusy = false;
    const done = waiting.findIndex((w) => w.write > through);
    const settled = waiting.splice(0, done < 0 ? waiting.length : done);
    const fresh = settled.filter((w) => w.record).length;
    let id = lastId - fresh;
    for (const w of settled) {
      if (w.record) recent.add(++id, w.record);
      w.resolve();
    }
    schedule();
    return fresh > 0;
  }

  function schedule(): void {
    if (isBusy || immediate) return;
    if (writes.length === 0 && ends === "") {
      if (starts.size > 0 || acks.length > 0) timer ??= setTimeout(flush, startDelayMs, false).unref();
    } else if (running > 0 && meanGapMs < sharedGapMs) sharing ??= setTimeout(flush, shareMs, false);
    else {
      // Also cuts short a wait that began while others still ran.
      immediate = setImmediate(flush, false);
    }
  }

  function endStart(key: string, start: Start): void {
    starts.delete(key);
    start.row = undefined;
  }

  function sawEnd(): void {
    const now = performance.now();
    const gap = Math.min(100, now - lastEndMs);
    lastEndMs = now;
    meanGapMs = meanGapMs === Number.POSITIVE_INFINITY ? gap : meanGapMs * 0.9 + gap * 0.1;
    running = Math.max(0, running - 1);
  }

  function put(write: Write | undefined, record?: string): Promise<void> {
    if (ended) return Promise.reject(ended);
    if (write) writes.push(write);
    lastWrite += 1;
    const number = lastWrite;
    schedule();
    return new Promise((resolve, reject) => waiting.push({ write: number, record, resolve, reject }));
  }

  function ask<T>(message: (query: number) => ToWorker): Promise<T> {
    if (ended) return Promise.reject(ended);
    const query = ++lastQuery;
    post(message(query));
    return new Promise<T>((resolve, reject) => queries.set(query, { resolve, reject }));
  }

  function fail(error: Error): void {
    ended ??= error;
    isWritable = false;
    for (const w of waiting) w.reject(error);
    for (const q of queries.values()) q.reject(error);
    waiting = [];
    queries.clear();
    closed?.();
  }

  const thread: StateThread = {
    recent,
    get isWritable() {
      return isWritable;
    },
    get depth() {
      return depth;
    },
    get meta() {
      return meta;
    },
    start: (row) => {
      starts.set(`${row.requestId}.${row.attempt}`, { row, atMs: performance.now() });
      running += 1;
      schedule();
    },
    end: (row) => {
      const { requestId, attempt, leaseIds } = row;
      sawEnd();
      const key = `${requestId}.${attempt}`;
      const start = starts.get(key);
      if (start) endStart(key, start);
      const hadStart = start === undefined;
      const json = textOf(row);
      ends += endLine({ requestId, attempt, leaseIds: leaseIds.join(","), record: json, hadStart });
      return put(undefined, json);
    },
    acknowledge: (spoolIds) => {
      recent.acknowledged(spoolIds);
      for (const id of spoolIds) acks.push(id);
      schedule();
    },
    write: (write) => put(write),
    pending: (limit) => {
      // The reply must not contain records that were just acknowledged.
      if (acks.length > 0) flush(false);
      return ask((query) => ({ kind: "pending", query, limit }));
    },
    leaseIds: () => {
      // The reply must contain the leases of every running request.
      flush(true);
      return ask((query) => ({ kind: "leases", query }));
    },
    resend: (id) => {
      // Write the acknowledgements first: their records are then among the kept ones.
      flush(true);
      return ask((query) => ({ kind: "resend", query, id }));
    },
    onPending: (listener) => {
      listeners.push(listener);
      if (depth.records > 0) queueMicrotask(listener);
    },
    close: () =>
      new Promise<void>((resolve) => {
        closed = resolve;
        flush(true);
        post({ kind: "close" });
      }).then(() => fail(new Error("the state database is closed"))),
  };

  return new Promise((opened, notOpened) => {
    // The depth is not enough: the commit that adds a record can delete more acknowledged ones.
    const sawDepth = (now: SpoolDepth, hasFresh: boolean) => {
      const hasNews = hasFresh || now.records > depth.records;
      depth = now;
      if (now.records === 0) recent.emptied();
      if (hasNews) for (const listener of listeners) listener();
    };
    const sawFailure = (reason: string) => {
      if (isWritable)
        log.error({ reason }, "cannot write usage records; no request is admitted until they can be written");
      isWritable = false;
    };
    const settleQuery = (query: number, value: unknown) => {
      queries.get(query)?.resolve(value as never);
      queries.delete(query);
    };
    worker.on("message", (message: FromWorker) => {
      switch (message.kind) {
        case "opened":
          ({ meta, depth } = message);
          if (depth.records === 0) recent.emptied();
          if (message.lost > 0) log.warn({ lost: message.lost }, "requests of an earlier run ended without a record");
          return opened(thread);
        case "not_opened":
          return notOpened(
            new Error(
              `cannot open the agent's state ${path}: ${message.reason}; check space and permissions of its folder`,
            ),
          );
        case "moved_aside":
          return log.error(
            { movedTo: message.to, reason: message.reason },
            "the agent's state was corrupt and was moved aside; unacknowledged usage in that file will not be billed",
          );
        case "written":
          if (message.isLow) sawFailure("the disk is full, and the reserved space is in use");
          else if (!isWritable) log.info("usage records can be written again");
          isWritable = !message.isLow;
          return sawDepth(message.depth, written(message.through, message.lastId));
        case "failing":
          return sawFailure(message.reason);
        case "unanswered":
          queries.get(message.query)?.reject(new Error(message.reason));
          queries.delete(message.query);
          return;
        case "rows":
          return settleQuery(message.query, message.rows);
        case "lease_ids":
          return settleQuery(message.query, message.ids);
        case "moved":
          recent.incomplete();
          return sawDepth(message.depth, true);
        case "not_moved":
          return log.warn({ reason: message.reason }, "could not make kept usage records pending; will retry");
        case "resent":
          return settleQuery(message.query, message.resend);
        case "closed":
          return closed?.();
        default:
          return unreachable(message);
      }
    });
    worker.on("error", (error) => {
      log.fatal({ err: error }, "the state thread died");
      notOpened(error);
      fail(error instanceof Error ? error : new Error(String(error)));
      // An agent that cannot record usage would never admit a request: end, so that the service manager starts it again.
      throw error;
    });
    worker.on("exit", () => fail(new Error("the state thread has ended")));
  });
}

export /**
 * Texts of durable records that are not yet acknowledged: reading one from the file would cost a copy between threads, and objects
 * would cost the garbage collector. Above the bound and after a restart the file is read.
 */
class Unacknowledged {
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
