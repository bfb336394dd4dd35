// The main thread's end of the database thread. One message per commit: what is written while a commit runs waits here
// and goes as the next batch. A start row whose end comes before it was sent is never written at all.
import { Worker } from "node:worker_threads";
import type { Logger } from "pino";
import { unreachable } from "../../proto/unreachable.ts";
import type { RecordRow } from "../ingress/spool.ts";
import {
  endLine,
  type FromWorker,
  type MetaKey,
  type PendingRow,
  type SpoolDepth,
  type ToWorker,
  type Write,
} from "./state-messages.ts";
import { Unacknowledged } from "./unacknowledged.ts";

/**
 * Start rows wait this long: a request that ends sooner needs none, and one that a kill cuts has delivered little.
 * Acknowledgements wait as long when no commit takes them along: without them a restart only sends again.
 */
const startDelayMs = 50;
/**
 * Under load a commit waits at most this long for others to share it, as PostgreSQL's commit_delay does: fsync and the two
 * thread switches cost more than all else a request needs. Where nobody else runs it does not wait: alone, a record never does.
 */
const shareMs = 16;
/** Ends further apart than this share nothing worth waiting for. */
const sharedGapMs = 8;

interface Waiting {
  readonly write: number;
  /** The record, as JSON, that becomes pending with it. */
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
  /** Not waited for: what is lost with the machine is only sent once more. */
  acknowledge(spoolIds: readonly string[]): void;
  write(write: Write): Promise<void>;
  pending(limit: number): Promise<readonly PendingRow[]>;
  leaseIds(): Promise<readonly string[]>;
  onPending(listener: () => void): void;
  /** Writes what waits, then ends the thread. Writes that still fail then are rejected. */
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

/** Resolves when the file is open and start rows of an earlier life are durable records. Rejects when it cannot be opened. */
export function startStateThread(path: string, log: Logger): Promise<StateThread> {
  const worker = new Worker(new URL("./state-worker.ts", import.meta.url), { workerData: { path } });
  const post = (message: ToWorker) => worker.postMessage(message);
  /** Oldest first. */
  const starts = new Map<string, { readonly row: RecordRow; readonly atMs: number }>();
  const recent = new Unacknowledged();
  let acks: string[] = [];
  let writes: Write[] = [];
  /** Records, as lines. */
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
  /** Why nothing can be written or asked any more. */
  let ended: Error | undefined;
  let lastQuery = 0;
  /** Started and not ended: those who may soon have a record to write. */
  let running = 0;
  let lastEndMs = 0;
  let meanGapMs = Number.POSITIVE_INFINITY;
  const queries = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
  const listeners: (() => void)[] = [];

  /** `all`: also the start rows that are still young. */
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
      starts.delete(key);
      batch.push(startWrite(start.row));
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

  /** True when records became durable. */
  function written(through: number, lastId: number): boolean {
    isBusy = false;
    isWritable = true;
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
      const hadStart = !starts.delete(`${requestId}.${attempt}`);
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
      // The answer must not name what was just acknowledged.
      if (acks.length > 0) flush(false);
      return ask((query) => ({ kind: "pending", query, limit }));
    },
    leaseIds: () => {
      // The answer must name the leases of every request that runs.
      flush(true);
      return ask((query) => ({ kind: "leases", query }));
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
    // The depth alone does not tell: the commit that brings a record may take more acknowledged ones away.
    const sawDepth = (now: SpoolDepth, hasFresh: boolean) => {
      const hasNews = hasFresh || now.records > depth.records;
      depth = now;
      if (now.records === 0) recent.emptied();
      if (hasNews) for (const listener of listeners) listener();
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
          if (message.lost > 0) log.warn({ lost: message.lost }, "requests of an earlier life ended without a record");
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
            "the agent's state was corrupt and is moved aside: usage not yet acknowledged is in that file and will not be billed",
          );
        case "written":
          if (!isWritable) log.info("usage records can be written again");
          return sawDepth(message.depth, written(message.through, message.lastId));
        case "failing":
          if (isWritable)
            log.error(
              { reason: message.reason },
              "cannot write usage records: nothing is admitted until this is mended",
            );
          isWritable = false;
          return;
        case "unanswered":
          queries.get(message.query)?.reject(new Error(message.reason));
          queries.delete(message.query);
          return;
        case "rows":
          return settleQuery(message.query, message.rows);
        case "lease_ids":
          return settleQuery(message.query, message.ids);
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
      // An agent that can record no usage admits nothing for ever: it ends, and whoever keeps it running starts it anew.
      throw error;
    });
    worker.on("exit", () => fail(new Error("the state thread has ended")));
  });
}
