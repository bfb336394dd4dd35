// Where jobs are kept: BullMQ's PostgreSQL backend in a schema of its own, or Redis. A lost job costs nothing: whatever it
// must do also stands in a table, and schedules are made anew when they are missing.
import { createPostgresBackend, PostgresConnection, Queue, Worker, type WorkerOptions, withBackend } from "bullmq";

export type JobsAddress = { readonly databaseUrl: string } | { readonly redisUrl: string };

export type Work = (job: { readonly name: string; readonly data: unknown }) => Promise<void>;

/** How a worker of one queue works, in BullMQ's words. */
export type WorkerWishes = Pick<
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

/** A server that is away is asked again so soon, also after a long outage. */
const redisRetryMs = 1_000;
const schema = "stoker_jobs";
const connectTimeoutMs = 2_000;
/** Of BullMQ's own changes to its tables, and of waiting for another control plane's. */
const migrationTimeoutMs = 60_000;
/** Two for commands; a worker listens on one more of its own. */
const maxConnections = 2;

interface Client {
  waitUntilReady(): Promise<unknown>;
  on(event: "error", listener: (error: Error) => void): unknown;
  close(): Promise<void>;
}

/** What is used of a connection to PostgreSQL. */
interface Connected {
  on(event: "error", listener: () => void): unknown;
  end(): Promise<void>;
}

/** What is used of BullMQ, the same over either store. */
export interface Backend {
  readonly queue: Client & Pick<Queue, "addBulk" | "getJobCounts" | "getJobScheduler" | "upsertJobScheduler">;
  readonly worker: Client & Pick<Worker, "run">;
}

/**
 * BullMQ takes every listener off the connection it listens on before it ends it, and what a dying server says in between
 * would then end this process: one listener stays.
 */
const createListeningBackend: typeof createPostgresBackend = (...given) => {
  const backend = createPostgresBackend(...given);
  const { connection } = backend;
  const establish = connection.getListenClient.bind(connection);
  const seen = new WeakSet<object>();
  connection.getListenClient = async () => {
    const client = await establish();
    if (seen.has(client)) return client;
    seen.add(client);
    const forget = client.removeAllListeners.bind(client);
    client.removeAllListeners = (...event) => {
      forget(...event);
      return client.on("error", () => {});
    };
    return client;
  };
  return backend;
};

const Postgres = withBackend(createListeningBackend);

/**
 * Brings the tables of a queue in PostgreSQL to BullMQ's version of them, over a connection of its own: it takes longer than any
 * other statement may. Broken off by `signal`.
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
    // A control plane that vanished meanwhile would keep the lock that the others wait for.
    idle_in_transaction_session_timeout: 10_000,
    onConnect(client: Connected) {
      client.on("error", () => {});
      AbortSignal.any([signal, end.signal]).addEventListener("abort", () => void client.end().catch(() => {}));
    },
  });
  try {
    await connection.waitUntilReady();
  } finally {
    // Not waited for: a server that vanished does not say goodbye.
    end.abort();
    void connection.close().catch(() => {});
  }
}

/**
 * Opens connections; nothing is worked on before `worker.run()`. The tables must have been made. Throws when the address cannot
 * be understood. `answerMs`: PostgreSQL must have done a statement by then.
 */
export function openBackend(
  address: JobsAddress,
  queueName: string,
  work: Work,
  wishes: WorkerWishes,
  answerMs: number,
): Backend {
  const worker = { ...wishes, autorun: false };
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
    // A server that vanished without a word would otherwise be waited for until TCP gives up: the connection is given up instead.
    query_timeout: answerMs * 1.2,
    // A connection that breaks between two statements of a transaction: the next one fails, and nothing else.
    onConnect: (client: Connected) => void client.on("error", () => {}),
  };
  return {
    queue: new Postgres.Queue(queueName, { connection }),
    worker: new Postgres.Worker(queueName, work, { ...worker, connection }),
  };
}
