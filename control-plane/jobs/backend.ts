// Where jobs are kept: BullMQ's PostgreSQL backend in a schema of its own, or Redis. A lost job costs nothing: whatever it
// must do also stands in a table, and schedules are made anew when they are missing.
import { createPostgresBackend, Queue, Worker, type WorkerOptions, withBackend } from "bullmq";

export type JobsAddress = { readonly databaseUrl: string } | { readonly redisUrl: string };

export type Work = (job: { readonly name: string; readonly data: unknown }) => Promise<void>;

/** How a worker of one queue works, in BullMQ's words. */
export type WorkerWishes = Pick<
  WorkerOptions,
  | "concurrency"
  | "lockDuration"
  | "maxStalledCount"
  | "removeOnComplete"
  | "removeOnFail"
  | "runRetryDelay"
  | "stalledInterval"
>;

/** A server that is away is asked again so soon, also after a long outage. */
const redisRetryMs = 1_000;
/** Two for commands; a worker listens on one more of its own. */
const maxConnections = 2;

interface Client {
  waitUntilReady(): Promise<unknown>;
  on(event: "error", listener: (error: Error) => void): unknown;
  close(): Promise<void>;
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

/** Opens connections; nothing is worked on before `worker.run()`. Throws when the address cannot be understood. */
export function openBackend(address: JobsAddress, queueName: string, work: Work, wishes: WorkerWishes): Backend {
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
    schema: "stoker_jobs",
    migrate: true,
    max: maxConnections,
    connectionTimeoutMillis: 2_000,
    // A connection that breaks between two statements of a transaction: the next one fails, and nothing else.
    onConnect: (client: { on(event: "error", listener: () => void): unknown }) => void client.on("error", () => {}),
  };
  return {
    queue: new Postgres.Queue(queueName, { connection }),
    worker: new Postgres.Worker(queueName, work, { ...worker, connection }),
  };
}
