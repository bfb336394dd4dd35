// A queue that is available whenever its store is: opened in the background, checked periodically, closed within bounds.
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { Gauge, type Registry } from "prom-client";
import { pause } from "../../proto/pause.ts";
import {
  type Backend,
  type JobsAddress,
  makeTables,
  openBackend,
  type QueueWorkerOptions,
  type Work,
} from "./backend.ts";

export interface BackgroundQueue {
  /** Opens in the background: an unreachable store is retried and delays nothing else. */
  start(): void;
  /** Bounded, also while the store is unavailable. Waits that long for running jobs. */
  stop(): Promise<void>;
  /** Undefined before its store was first reached. */
  queue(): Backend["queue"] | undefined;
}

const stopLimitMs = 5_000;
const retryMs = 5_000;
/** The same as for any other statement. */
const defaultAnswerMs = 5_000;
/** BullMQ's names. */
const states = ["waiting", "prioritized", "delayed", "active", "failed", "completed"] as const;

export function createBackgroundQueue(deps: {
  readonly address: JobsAddress;
  readonly name: string;
  readonly work: Work;
  readonly options: QueueWorkerOptions;
  /** Called once the queue is open, and every `pollEveryMs`. */
  readonly onPoll: (queue: Backend["queue"]) => Promise<void>;
  readonly pollEveryMs: number;
  /** A store that does not respond within this time is unavailable. */
  readonly answerMs?: number;
  readonly log: Logger;
  readonly registry: Registry;
}): BackgroundQueue {
  const { log, name, answerMs = defaultAnswerMs } = deps;
  const counts = jobCounts(deps.registry);
  const stopping = new AbortController();
  let backend: Backend | undefined;
  let loop: Promise<void> | undefined;
  let polling: Promise<void> | undefined;
  let areTablesMade = false;
  let isUnavailable = false;

  const setUnavailable = (error: unknown): void => {
    if (isOfOneJob(error)) {
      // Repeated at each renewal while the job runs.
      log.debug({ err: error, queue: name }, "a job was lost with the queue");
      return;
    }
    if (!isUnavailable && !stopping.signal.aborted)
      log.warn({ err: error, queue: name }, "job queue unavailable; will retry");
    isUnavailable = true;
  };

  async function open(): Promise<Backend> {
    const fresh = openBackend(deps.address, name, deps.work, deps.options, answerMs);
    // A client whose first connection failed keeps that failure: close it and create another.
    fresh.queue.on("error", setUnavailable);
    fresh.worker.on("error", setUnavailable);
    try {
      await Promise.all([fresh.queue.waitUntilReady(), fresh.worker.waitUntilReady()]);
      // The caller of stop() waited for this only for a bounded time.
      stopping.signal.throwIfAborted();
      void fresh.worker.run().catch(setUnavailable);
      return fresh;
    } catch (error) {
      await close(fresh);
      throw error;
    }
  }

  async function poll(queue: Backend["queue"]): Promise<void> {
    await deps.onPoll(queue);
    const found = await queue.getJobCounts(...states);
    for (const [state, count] of Object.entries(found)) counts.set({ queue: name, state }, count);
  }

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      let pauseMs = deps.pollEveryMs;
      try {
        if (!areTablesMade) await makeTables(deps.address, stopping.signal);
        areTablesMade = true;
        backend ??= await open();
        // Commands wait in the client while the store is unavailable: at most one at a time.
        polling ??= poll(backend.queue).finally(() => {
          polling = undefined;
        });
        if (!(await within(2 * answerMs, polling))) throw new Error("job queue does not respond");
        if (isUnavailable) log.info({ queue: name }, "job queue reachable again");
        isUnavailable = false;
      } catch (error) {
        setUnavailable(error);
        // Remove unknown figures: stale ones would be taken for current ones.
        for (const state of states) counts.remove({ queue: name, state });
        pauseMs = Math.min(pauseMs, retryMs);
        // Running jobs stay with the worker that started them; it must not get a second worker beside it.
        if (!backend || isUnmade(error)) areTablesMade = false;
      }
      await pause(pauseMs, stopping.signal);
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

/** Returns false when the work was not done in time; it continues on its own. */
export async function within(limitMs: number, work: Promise<unknown>): Promise<boolean> {
  const timer = new AbortController();
  const late = wait(limitMs, false, { signal: timer.signal }).catch(() => false);
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    timer.abort();
  }
}

/** True when the queue responds but no longer knows this job or knows another holder: it was wiped, or the lock expired. */
const isOfOneJob = (error: unknown): boolean =>
  error instanceof Error &&
  /^(could not renew lock for job|(missing (key|lock)|lock mismatch) for job|job \S+ is not in the)/i.test(
    error.message,
  );

/** True when PostgreSQL lacks the queue's tables or functions: they must be recreated. */
const isUnmade = (error: unknown): boolean =>
  error instanceof Error && "code" in error && ["3F000", "42P01", "42883"].includes(String(error.code));

/** Registered under BullMQ's own name, for all queues of this process. */
function jobCounts(registry: Registry): Gauge<"queue" | "state"> {
  const name = "bullmq_job_count";
  const known = registry.getSingleMetric(name);
  if (known) return known as Gauge<"queue" | "state">;
  return new Gauge({
    name,
    help: "Jobs of a queue by state, at the last poll; absent while the queue is unavailable",
    labelNames: ["queue", "state"] as const,
    registers: [registry],
  });
}
