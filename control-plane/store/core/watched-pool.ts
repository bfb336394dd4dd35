// A connection pool that fails fast while PostgreSQL is frozen or its host has vanished. TCP reports neither, and without a
// check every caller waits for the statement timeout. When an operation is slow, `select 1` runs on a separate connection;
// without a reply in time every waiting operation fails, and new ones fail at once until the reply comes.
import type { PostgresPool, PostgresPoolClient } from "kysely";
import pg from "pg";
import { DatabaseUnavailable } from "../../service-error.ts";
import { type CheckOptions, ReplyCheck } from "./reply-check.ts";

/** An operation that takes longer starts a check. */
const slowMs = 200;

/** Returns a pool for Kysely on top of `pool`; `end` ends both. Operations reject with DatabaseUnavailable of reason `no_answer`. */
export function watchPool(pool: pg.Pool, options: CheckOptions): PostgresPool {
  const { log } = options;
  const waiting = new Set<(error: Error) => void>();
  const failure = () => new DatabaseUnavailable("no_answer");
  const check = new ReplyCheck(options, (replyMs) => {
    log.error({ waiting: waiting.size, replyMs }, "database not responding; refusing work that needs it");
    const failed = [...waiting];
    waiting.clear();
    for (const fail of failed) fail(failure());
  });

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
      const timer = setInterval(() => void check.run(), slowMs).unref();
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
      if (check.isSilent || isBroken) throw failure();
      try {
        const result = await watch(Reflect.apply(client.query, client, args) as Promise<unknown>, () => {});
        check.replied();
        return result;
      } catch (error) {
        if (error instanceof DatabaseUnavailable) isBroken = true;
        if (error instanceof pg.DatabaseError) check.replied();
        throw error;
      }
    };
    return {
      query: query as PostgresPoolClient["query"],
      // A connection with an unanswered statement is closed, never used again.
      release: (discard = false) => client.release(isBroken || discard || check.isSilent),
    };
  }

  return {
    options: pool.options,
    async connect() {
      if (check.isSilent) {
        void check.run();
        throw failure();
      }
      check.prepare();
      const client = await watch(pool.connect(), (late) => late.release());
      return wrap(client);
    },
    async end() {
      await Promise.all([check.end(), pool.end()]);
    },
  };
}
