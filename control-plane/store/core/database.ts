// The connection to PostgreSQL: pool, types, time limits, and transactions that are retried when two of them met.

import { CamelCasePlugin, Kysely, PostgresDialect, type Transaction } from "kysely";
import pg from "pg";
import type { Logger } from "pino";
import { codeOf } from "./outage.ts";
import type { Database } from "./schema.ts";
import { watchPool } from "./watched-pool.ts";

export interface DatabaseOptions {
  readonly maxConnections: number;
  readonly log: Logger;
  /** For a connection from the pool: also bounds how long a refusal takes while PostgreSQL is away. */
  readonly connectTimeoutMs?: number;
  /** One statement on the server; the client gives up a second later. 0: no limit. */
  readonly statementTimeoutMs?: number;
}

export interface OpenDatabase {
  readonly db: Kysely<Database>;
  readonly pool: pg.Pool;
  close(): Promise<void>;
}

const int8 = 20;
const text = (oid: number, format?: "text" | "binary") => pg.types.getTypeParser(oid, format as "text");

/** Opens no connection yet: the first query does. */
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
    // A peer that vanished without a word would otherwise hold its caller until TCP gives up.
    ...(statementTimeoutMs ? { query_timeout: statementTimeoutMs + 1_000 } : {}),
    // A replica that was cut off in the middle of a transaction holds its rows until then: less than a host's lease.
    idle_in_transaction_session_timeout: 5_000,
    types: {
      getTypeParser: ((oid: number, format?: "text" | "binary") =>
        oid === int8 && format !== "binary" ? BigInt : text(oid, format)) as typeof pg.types.getTypeParser,
    },
  });
  // An idle connection that breaks is replaced at its next use; without a listener it would end the process.
  pool.on("error", ({ message, code }: Error & { code?: string }) =>
    // Without the client that pg hangs on it: the whole object in the log would bury the sentence.
    options.log.warn({ err: { message, code } }, "an idle database connection broke"),
  );
  // The same between two statements of a transaction: the next statement then fails and the transaction with it.
  pool.on("connect", (client) => client.on("error", () => {}));
  // Without a limit the caller wants to wait, however long it takes.
  const watched = statementTimeoutMs ? watchPool(pool, { connectionString: url, log: options.log }) : pool;
  // Names are camelCase in queries and results; raw SQL and the keys of stored JSON stay as written.
  const db = new Kysely<Database>({
    dialect: new PostgresDialect({ pool: watched }),
    plugins: [new CamelCasePlugin({ maintainNestedObjectKeys: true })],
  });
  return { db, pool, close: () => db.destroy() };
}

const preparedName = /^\s*\/\* prepared: (\w+) \*\//;

/**
 * Statements that begin with the comment `prepared: NAME` are parsed and planned once per connection and kept there. For the
 * few that run with every group of records: a name stands for one text for ever.
 */
class PreparingClient extends pg.Client {
  // biome-ignore lint/suspicious/noExplicitAny: the overloads of pg's own method.
  override query(config: any, values?: any, ...rest: any[]): any {
    const name = typeof config === "string" && Array.isArray(values) ? preparedName.exec(config)?.[1] : undefined;
    const statement = name === undefined ? config : { name, text: config };
    return (super.query as (...args: unknown[]) => unknown)(statement, values, ...rest);
  }
}

const retryable = new Set(["40001", "40P01"]);

/** Runs `work` in one transaction, again from the start when PostgreSQL broke a deadlock or a serialisation conflict. */
export const inTransaction = <T>(
  db: Kysely<Database>,
  work: (trx: Transaction<Database>) => Promise<T>,
  attempts?: number,
): Promise<T> => retrying(() => db.transaction().execute(work), attempts);

/** The same for a single statement, which is a transaction by itself. */
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

/** The name of the unique constraint an insert ran into, or undefined. */
export function uniqueViolation(error: unknown): string | undefined {
  if (codeOf(error) !== "23505") return undefined;
  return (error as { constraint?: string }).constraint ?? "";
}
