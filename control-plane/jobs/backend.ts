// Storage of jobs: BullMQ's PostgreSQL backend in its own schema, or Redis. A lost job costs nothing: everything it must do
// is also in a table, and missing schedules are recreated.
import { EventEmitter } from "node:events";
import {
  type createPostgresBackend,
  PostgresConnection,
  PostgresQueueBackend,
  Queue,
  Worker,
  type WorkerOptions,
  withBackend,
} from "bullmq";

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
/** Two for commands; a worker listens on one more connection. */
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

/**
 * BullMQ removes every listener from the client it listens on before it ends that client. An error that PostgreSQL sends in
 * between would end this process, so an `error` listener is added again.
 */
export class ListeningConnection extends PostgresConnection {
  readonly #guarded = new WeakSet<object>();

  override async getListenClient() {
    const client = await super.getListenClient();
    if (client instanceof EventEmitter && !this.#guarded.has(client)) {
      this.#guarded.add(client);
      // In a microtask: removeAllListeners() also removes listeners added while it runs.
      client.on("removeListener", (event) => {
        if (event === "error") queueMicrotask(() => client.on("error", () => {}));
      });
    }
    return client;
  }
}

const createBackend: typeof createPostgresBackend = (queueName, options) =>
  new PostgresQueueBackend(new ListeningConnection(options.connection), queueName, options);

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
    schema,
    migrate: false,
    max: maxConnections,
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    statement_timeout: answerMs,
    // Close the connection to a server that vanished instead of waiting for TCP to give up.
    query_timeout: answerMs * 1.2,
    // When a connection breaks between two statements of a transaction, only the next statement fails.
    onConnect: (client: Connected) => void client.on("error", () => {}),
  };
  return {
    queue: new Postgres.Queue(queueName, { connection }),
    worker: new Postgres.Worker(queueName, work, { ...worker, connection }),
  };
}
