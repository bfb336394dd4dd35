// A connection pool that fails fast while PostgreSQL is frozen or its host has vanished. TCP reports neither, and without a
// check every caller waits for the statement timeout. When an operation is slow, `select 1` runs on a separate connection;
// without a reply in time every waiting operation fails, and new ones fail at once until the reply comes.
import { setTimeout as wait } from "node:timers/promises";
import type { PostgresPool, PostgresPoolClient } from "kysely";
import pg from "pg";
import type { Logger } from "pino";
import { DatabaseUnavailable } from "../../service-error.ts";

export interface WatchOptions {
  readonly connectionString: string;
  readonly log: Logger;
  /** An operation that takes longer starts a check. */
  readonly slowMs?: number;
  /** Longest wait for the check's reply. Together with `slowMs` below a second: callers get 503 within it. */
  readonly replyMs?: number;
  /** The same while the check has no connection yet: connecting takes several replies and a new process of the server. */
  readonly connectMs?: number;
  /** After this time an attempt of a check is abandoned and the next one begins. */
  readonly attemptMs?: number;
}

/** Shortest time between two connects of the check in advance. */
const prepareEveryMs = 1_000;
const judgeMs = 50;

/** Connection that carries only checks. */
interface Checker {
  readonly client: pg.Client;
  isConnected: boolean;
  readonly connecting: Promise<unknown>;
}

/** Returns a pool for Kysely on top of `pool`; `end` ends both. Operations reject with DatabaseUnavailable of reason `no_answer`. */
export function watchPool(pool: pg.Pool, options: WatchOptions): PostgresPool {
  const { slowMs = 200, replyMs = 500, connectMs = 1_000, attemptMs = 3_000, log } = options;
  const waiting = new Set<(error: Error) => void>();
  /** Monotonic time of the last reply to any statement, errors included: it proves that PostgreSQL is alive. */
  let repliedMs = 0;
  let isOpen = false;
  let isChecking = false;
  let isEnded = false;
  let checker: Checker | undefined;
  let preparedMs = Number.NEGATIVE_INFINITY;

  const failure = () => new DatabaseUnavailable("no_answer");

  function connectChecker(): Checker {
    const client = new pg.Client({
      connectionString: options.connectionString,
      application_name: "stoker-check",
      connectionTimeoutMillis: attemptMs,
      keepAlive: true,
    });
    const made: Checker = { client, isConnected: false, connecting: client.connect() };
    preparedMs = performance.now();
    checker = made;
    client.on("error", () => void forget(made));
    client.on("end", () => void forget(made));
    made.connecting.then(
      () => {
        made.isConnected = true;
        repliedMs = performance.now();
      },
      () => void forget(made),
    );
    return made;
  }

  /** Connects in advance: a check should not have to wait for a connection. */
  function prepare(): void {
    if (!checker && !isEnded && performance.now() - preparedMs >= prepareEveryMs) connectChecker();
  }

  /** Resolves with any reply, including an error: a server that refuses a connection is not frozen. */
  async function ping(): Promise<void> {
    const current = checker ?? connectChecker();
    try {
      await current.connecting;
      await current.client.query("select 1");
    } catch {
      void forget(current);
    }
  }

  /** An abandoned connection fails late: then another one is current. */
  async function forget(one: Checker | undefined): Promise<void> {
    if (checker === one) checker = undefined;
    await one?.client.end().catch(() => {});
  }

  /** Runs until PostgreSQL replies. An attempt is abandoned in time: its connection may be the part that is broken. */
  async function check(): Promise<void> {
    if (isChecking || isEnded) return;
    isChecking = true;
    const startedMs = performance.now();
    let isReplied = false;
    const isLate = () => {
      const limitMs = checker?.isConnected ? replyMs : connectMs;
      return !isReplied && performance.now() - Math.max(startedMs, repliedMs) >= limitMs;
    };
    // This process may have been stalled: read what has arrived before judging.
    const judge = () => isLate() && setImmediate(() => setImmediate(() => isLate() && open()));
    const timer = setInterval(judge, judgeMs).unref();
    while (!isReplied && !isEnded) {
      const attempt = new AbortController();
      const late = wait(attemptMs, false, { ref: false, signal: attempt.signal }).catch(() => false);
      isReplied = await Promise.race([ping().then(() => true), late]);
      attempt.abort();
      if (!isReplied) void forget(checker);
    }
    clearInterval(timer);
    isChecking = false;
    close();
  }

  function open(): void {
    if (isOpen || isEnded) return;
    isOpen = true;
    log.error({ waiting: waiting.size, replyMs }, "database not responding; refusing work that needs it");
    const failed = [...waiting];
    waiting.clear();
    for (const fail of failed) fail(failure());
  }

  function close(): void {
    if (!isOpen) return;
    isOpen = false;
    log.info("database responding again");
  }

  /** `late` disposes of a result that came after the operation had failed. */
  function watch<T>(work: Promise<T>, late: (result: T) => void): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      let isFailed = false;
      const fail = (error: Error) => {
        isFailed = true;
        clearInterval(timer);
        reject(error);
      };
      const done = () => {
        clearInterval(timer);
        waiting.delete(fail);
      };
      const timer = setInterval(() => void check(), slowMs).unref();
      waiting.add(fail);
      work.then(
        (result) => {
          done();
          if (isFailed) late(result);
          else resolve(result);
        },
        (error) => {
          done();
          if (!isFailed) reject(error);
        },
      );
    });
  }

  function wrap(client: pg.PoolClient): PostgresPoolClient {
    let isBroken = false;
    const query = async (...args: unknown[]): Promise<unknown> => {
      if (isOpen || isBroken) throw failure();
      try {
        const result = await watch(Reflect.apply(client.query, client, args) as Promise<unknown>, () => {});
        repliedMs = performance.now();
        return result;
      } catch (error) {
        if (error instanceof DatabaseUnavailable) isBroken = true;
        if (error instanceof pg.DatabaseError) repliedMs = performance.now();
        throw error;
      }
    };
    return {
      query: query as PostgresPoolClient["query"],
      // A connection with an unanswered statement is closed, never used again.
      release: (discard = false) => client.release(isBroken || discard || isOpen),
    };
  }

  return {
    options: pool.options,
    async connect() {
      if (isOpen) {
        void check();
        throw failure();
      }
      prepare();
      const client = await watch(pool.connect(), (late) => late.release());
      return wrap(client);
    },
    async end() {
      isEnded = true;
      // A frozen server never confirms the end.
      const checkerEnd = Promise.race([forget(checker), wait(attemptMs, undefined, { ref: false })]);
      await Promise.all([pool.end(), checkerEnd]);
    },
  };
}
