// A queue that is there whenever its store is: opened in the background, looked at every so often, closed within bounds.
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { Gauge, type Registry } from "prom-client";
import { type Backend, type JobsAddress, openBackend, type Work, type WorkerWishes } from "./backend.ts";

export interface StandingQueue {
  /** In the background: a store that cannot be reached is tried again, and holds nothing else up. */
  start(): void;
  /** Bounded, also when the store is away. What runs is waited for that long. */
  stop(): Promise<void>;
  /** Undefined before its store was reached for the first time. */
  queue(): Backend["queue"] | undefined;
}

const stopLimitMs = 5_000;
const retryMs = 5_000;
/** Of the queue's own words for them. */
const states = ["waiting", "prioritized", "delayed", "active", "failed", "completed"] as const;

export function createStandingQueue(deps: {
  readonly address: JobsAddress;
  readonly name: string;
  readonly work: Work;
  readonly wishes: WorkerWishes;
  /** As soon as it is open, and again every `lookEveryMs`. */
  readonly look: (queue: Backend["queue"]) => Promise<void>;
  readonly lookEveryMs: number;
  readonly log: Logger;
  readonly registry: Registry;
}): StandingQueue {
  const { log, name } = deps;
  const counts = jobCounts(deps.registry);
  const stopping = new AbortController();
  let backend: Backend | undefined;
  let loop: Promise<void> | undefined;
  let isAway = false;

  const away = (error: unknown): void => {
    if (isOfOneJob(error)) {
      // Said again at each renewal, for as long as it runs.
      log.debug({ err: error, queue: name }, "a job was lost with the queue");
      return;
    }
    if (!isAway && !stopping.signal.aborted)
      log.warn({ err: error, queue: name }, "the job queue cannot be reached; it is tried again");
    isAway = true;
  };

  async function open(): Promise<Backend> {
    const fresh = openBackend(deps.address, name, deps.work, deps.wishes);
    // A client whose first contact failed keeps the failure: it is closed and another one made.
    fresh.queue.on("error", away);
    fresh.worker.on("error", away);
    try {
      await Promise.all([fresh.queue.waitUntilReady(), fresh.worker.waitUntilReady()]);
      void fresh.worker.run().catch(away);
      return fresh;
    } catch (error) {
      await close(fresh);
      throw error;
    }
  }

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      let pauseMs = deps.lookEveryMs;
      try {
        backend ??= await open();
        await deps.look(backend.queue);
        const found = await backend.queue.getJobCounts(...states);
        for (const [state, count] of Object.entries(found)) counts.set({ queue: name, state }, count);
        if (isAway) log.info({ queue: name }, "the job queue is reached again");
        isAway = false;
      } catch (error) {
        away(error);
        pauseMs = Math.min(pauseMs, retryMs);
        if (backend && isUnmade(error)) {
          void close(backend);
          backend = undefined;
        }
      }
      await wait(pauseMs, undefined, { signal: stopping.signal }).catch(() => {});
    }
  }

  async function end(): Promise<void> {
    stopping.abort();
    await within(stopLimitMs, Promise.resolve(loop));
    if (backend) await close(backend);
  }
  let ended: Promise<void> | undefined;

  return {
    start() {
      loop ??= run();
    },
    stop() {
      ended ??= end();
      return ended;
    },
    queue: () => backend?.queue,
  };
}

async function close({ worker, queue }: Backend): Promise<void> {
  await within(stopLimitMs, Promise.allSettled([worker.close(), queue.close()]));
}

/** False: it was not done by then, and is left to itself. */
export async function within(limitMs: number, work: Promise<unknown>): Promise<boolean> {
  const timer = new AbortController();
  const late = wait(limitMs, false, { signal: timer.signal }).catch(() => false);
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    timer.abort();
  }
}

/** The queue answers, and does not know this job any more or knows another holder: it was wiped, or its lock ran out. */
const isOfOneJob = (error: unknown): boolean =>
  error instanceof Error &&
  /^(could not renew lock for job|(missing (key|lock)|lock mismatch) for job|job \S+ is not in the)/i.test(
    error.message,
  );

/** PostgreSQL does not know the queue's tables or functions any more: they are made anew when it is opened. */
const isUnmade = (error: unknown): boolean =>
  error instanceof Error && "code" in error && ["3F000", "42P01", "42883"].includes(String(error.code));

/** Under BullMQ's own name, for all queues of this process. */
function jobCounts(registry: Registry): Gauge<"queue" | "state"> {
  const name = "bullmq_job_count";
  const known = registry.getSingleMetric(name);
  if (known) return known as Gauge<"queue" | "state">;
  return new Gauge({
    name,
    help: "Jobs of a queue by state, as last looked at",
    labelNames: ["queue", "state"] as const,
    registers: [registry],
  });
}
