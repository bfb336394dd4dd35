// Connections to PostgreSQL: pool, types, time limits, and transactions with retries.
import { CamelCasePlugin, Kysely, PostgresDialect, sql } from "kysely";
import pg from "pg";
import type { Logger } from "pino";
import { codeOf } from "./outage.ts";
import type { Database, Db, Trx } from "./schema.ts";
import { watchPool } from "./watched-pool.ts";

interface DatabaseOptions {
  readonly maxConnections: number;
  readonly log: Logger;
  /** Limit for a connection from the pool, which also bounds a refusal while PostgreSQL is unavailable. */
  readonly connectTimeoutMs?: number;
  /** One statement on the server; the client gives up a second later. 0: no limit. */
  readonly statementTimeoutMs?: number;
}

export interface OpenDatabase {
  readonly db: Db;
  readonly pool: pg.Pool;
  close(): Promise<void>;
}

const int8 = 20;
const text = (oid: number, format?: "text" | "binary") => pg.types.getTypeParser(oid, format as "text");

/** The first query opens the first connection. */
export function openDatabase(url: string, options: DatabaseOptions): OpenDatabase {
  const statementTimeoutMs = options.statementTimeoutMs ?? 5_000;
  const pool = new pg.Pool({
    Client: PreparingClient,
    connectionString: url,
    max: options.maxConnections,
    connectionTimeoutMillis: options.connectTimeoutMs ?? 2_000,
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    application_name: "stoker",
    statement_timeout: statementTimeoutMs || false,
    // Without it, a peer that vanished would block its caller until TCP times out.
    ...(statementTimeoutMs ? { query_timeout: statementTimeoutMs + 1_000 } : {}),
    // A replica that was cut off during a transaction holds its locks until then, which is less than a host's lease.
    idle_in_transaction_session_timeout: 5_000,
    types: {
      getTypeParser: ((oid: number, format?: "text" | "binary") =>
        oid === int8 && format !== "binary" ? BigInt : text(oid, format)) as typeof pg.types.getTypeParser,
    },
  });
  // The pool replaces a broken idle connection; without a listener the error would end the process.
  pool.on("error", ({ message, code }: Error & { code?: string }) =>
    // Without the client object that pg attaches to the error.
    options.log.warn({ err: { message, code } }, "an idle database connection broke"),
  );
  // Between two statements of a transaction: the next statement fails, and the transaction with it.
  pool.on("connect", (client) => client.on("error", () => {}));
  // Without a limit the caller accepts any wait.
  const watched = statementTimeoutMs ? watchPool(pool, { connectionString: url, log: options.log }) : pool;
  // Names are camelCase in queries and results; raw SQL and the keys of stored JSON stay as written.
  const db = new Kysely<Database>({
    dialect: new PostgresDialect({ pool: watched }),
    plugins: [new CamelCasePlugin({ maintainNestedObjectKeys: true })],
  });
  return { db, pool, close: () => db.destroy() };
}

const preparedName = /^\s*\/\* prepared: (\w+) \*\//;
const ownLimit = /^\s*\/\* at most (\d+) s \*\//;

/**
 * Statements that begin with the comment `prepared: NAME` are parsed and planned once per connection. For the few that run with
 * every group of records: one name must always have the same text. A reply to one that begins with `at most N s` may take that long;
 * its transaction sets the server's limit.
 */
class PreparingClient extends pg.Client {
  // biome-ignore lint/suspicious/noExplicitAny: the overloads of pg's own method.
  override query(config: any, values?: any, ...rest: any[]): any {
    const text = typeof config === "string" && Array.isArray(values) ? config : "";
    const name = preparedName.exec(text)?.[1];
    const seconds = ownLimit.exec(text)?.[1];
    const statement =
      name !== undefined
        ? { name, text }
        : seconds !== undefined
          ? { text, query_timeout: (Number(seconds) + 1) * 1_000 }
          : config;
    return (super.query as (...args: unknown[]) => unknown)(statement, values, ...rest);
  }
}

const retryable = new Set(["40001", "40P01"]);

/** Runs `work` in one transaction; retries from the start after a deadlock or serialisation conflict. */
export const inTransaction = <T>(db: Db, work: (trx: Trx) => Promise<T>, attempts?: number): Promise<T> =>
  retrying(() => db.transaction().execute(work), attempts);

/** The same for a single statement. */
export async function retrying<T>(work: () => Promise<T>, attempts = 5): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (attempt >= attempts || !retryable.has(codeOf(error))) throw error;
      await new Promise((resolve) => setTimeout(resolve, attempt * 5 + Math.random() * 20));
    }
  }
}

/** Returns the name of the violated unique constraint, or undefined. */
export function uniqueViolation(error: unknown): string | undefined {
  if (codeOf(error) !== "23505") return undefined;
  return (error as { constraint?: string }).constraint ?? "";
}

/** Unix milliseconds of the database's clock when it replied. */
export async function databaseTimeMs(db: Db): Promise<number> {
  const sentMs = performance.now();
  const { rows } = await sql<{
    ms: number;
  }>`select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms`.execute(db);
  return (rows[0]?.ms ?? Number.NaN) + (performance.now() - sentMs) / 2;
}

/** Throws when PostgreSQL does not respond within the pool's limits. */
export async function pingDatabase(db: Db): Promise<void> {
  await sql`select 1`.execute(db);
}
