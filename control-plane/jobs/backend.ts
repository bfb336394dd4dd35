// Storage of jobs: BullMQ's PostgreSQL backend in its own schema, or Redis. A lost job costs nothing: everything it must do
// is also in a table, and missing schedules are recreated.
import {
  type createPostgresBackend,
  PostgresConnection,
  PostgresQueueBackend,
  Queue,
  Worker,
  type WorkerOptions,
  withBackend,
} from "bullmq";
import pg from "pg";

export type JobsAddress = { readonly databaseUrl: string } | { readonly redisUrl: string };

export type Work = (job: { readonly name: string; readonly data: unknown }) => Promise<void>;

/** Options of one queue's worker, in BullMQ's terms. */
export type QueueWorkerOptions = Pick<
  WorkerOptions,
  | "concurrency"
  | "drainDelay"
  | "lockDuration"
  | "maxStalledCount"
  | "removeOnComplete"
  | "removeOnFail"
  | "runRetryDelay"
  | "stalledInterval"
>;

/** Retry interval for an unavailable server, also after a long outage. */
const redisRetryMs = 1_000;
const schema = "stoker_jobs";
const connectTimeoutMs = 2_000;
/** Limit for BullMQ's own migrations, including the wait for another control plane's. */
const migrationTimeoutMs = 60_000;
/** For commands. */
const maxConnections = 2;

interface Client {
  waitUntilReady(): Promise<unknown>;
  on(event: "error", listener: (error: Error) => void): unknown;
  close(): Promise<void>;
}

/** The used part of a PostgreSQL connection. */
interface Connected {
  on(event: "error", listener: () => void): unknown;
  end(): Promise<void>;
}

/** The used part of BullMQ, the same over either store. */
export interface Backend {
  readonly queue: Client & Pick<Queue, "addBulk" | "getJobCounts" | "getJobScheduler" | "upsertJobScheduler">;
  readonly worker: Client & Pick<Worker, "run">;
}

const ignoreError = () => {};

/**
 * Connection whose errors always have a listener: one without ends this process. BullMQ adds its listener a moment after the connection
 * is ready, and removes all before it ends the connection, but PostgreSQL may send an error at any time. The next statement fails.
 */
class GuardedClient extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config);
    this.on("error", ignoreError);
  }

  override removeAllListeners(event?: string | symbol): this {
    super.removeAllListeners(event);
    return this.on("error", ignoreError);
  }
}

/** Connections of one queue or worker, of which it listens on one. Ends them when it is closed. */
export class ListeningConnection extends PostgresConnection {
  override readonly schema = schema;
  #closing: Promise<void> | undefined;

  constructor(config: pg.PoolConfig) {
    const pool = new pg.Pool({
      ...config,
      Client: GuardedClient,
      options: `-c search_path=${schema}`,
      // A listening connection that vanished is noticed by this alone.
      keepAliveInitialDelayMillis: 10_000,
    });
    // BullMQ takes a pool, but its type of one has an index signature.
    super(pool as unknown as PostgresConnection["pool"]);
  }

  override close(): Promise<void> {
    this.#closing ??= super.close().finally(() => this.pool.end());
    return this.#closing;
  }
}

const createBackend: typeof createPostgresBackend = (queueName, options) =>
  new PostgresQueueBackend(new ListeningConnection(options.connection as pg.PoolConfig), queueName, options);

const Postgres = withBackend(createBackend);

/**
 * Migrates a queue's tables in PostgreSQL to BullMQ's version, over its own connection because it may take longer than any
 * other statement. Aborted by `signal`.
 */
export async function makeTables(address: JobsAddress, signal: AbortSignal): Promise<void> {
  if ("redisUrl" in address) return;
  const end = new AbortController();
  const connection = new PostgresConnection({
    connectionString: address.databaseUrl,
    schema,
    migrate: true,
    max: 1,
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    statement_timeout: migrationTimeoutMs,
    query_timeout: migrationTimeoutMs + 1_000,
    // A control plane that died during the migration would otherwise keep the lock.
    idle_in_transaction_session_timeout: 10_000,
    onConnect(client: Connected) {
      client.on("error", () => {});
      AbortSignal.any([signal, end.signal]).addEventListener("abort", () => void client.end().catch(() => {}));
    },
  });
  try {
    await connection.waitUntilReady();
  } finally {
    // Not awaited: a server that vanished does not close the connection.
    end.abort();
    void connection.close().catch(() => {});
  }
}

/**
 * Opens connections; no job runs before `worker.run()`. The tables must exist. Throws when the address is invalid.
 * `answerMs`: limit of a PostgreSQL statement.
 */
export function openBackend(
  address: JobsAddress,
  queueName: string,
  work: Work,
  options: QueueWorkerOptions,
  answerMs: number,
): Backend {
  const worker = { ...options, autorun: false };
  if ("redisUrl" in address) {
    const connection = { url: address.redisUrl, maxRetriesPerRequest: null, retryStrategy: () => redisRetryMs };
    return {
      queue: new Queue(queueName, { connection, prefix: "stoker-jobs" }),
      worker: new Worker(queueName, work, { ...worker, connection, prefix: "stoker-jobs" }),
    };
  }
  const connection = {
    connectionString: address.databaseUrl,
    max: maxConnections,
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    statement_timeout: answerMs,
    // Close the connection to a server that vanished instead of waiting for TCP to give up.
    query_timeout: answerMs * 1.2,
  };
  return {
    queue: new Postgres.Queue(queueName, { connection }),
    // It listens on one more.
    worker: new Postgres.Worker(queueName, work, { ...worker, connection: { ...connection, max: maxConnections + 1 } }),
  };
}
