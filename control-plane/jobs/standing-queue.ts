// A queue that is there whenever its store is: opened in the background, looked at every so often, closed within bounds.
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { Gauge, type Registry } from "prom-client";
import { type Backend, type JobsAddress, makeTables, openBackend, type Work, type WorkerWishes } from "./backend.ts";

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
/** As long as any other statement may take. */
const defaultAnswerMs = 5_000;
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
  /** A store that has not answered by then is away. */
  readonly answerMs?: number;
  readonly log: Logger;
  readonly registry: Registry;
}): StandingQueue {
  const { log, name, answerMs = defaultAnswerMs } = deps;
  const counts = jobCounts(deps.registry);
  const stopping = new AbortController();
  let backend: Backend | undefined;
  let loop: Promise<void> | undefined;
  let looking: Promise<void> | undefined;
  let areTablesMade = false;
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
    const fresh = openBackend(deps.address, name, deps.work, deps.wishes, answerMs);
    // A client whose first contact failed keeps the failure: it is closed and another one made.
    fresh.queue.on("error", away);
    fresh.worker.on("error", away);
    try {
      await Promise.all([fresh.queue.waitUntilReady(), fresh.worker.waitUntilReady()]);
      // Whoever stopped the queue waited for this in bounded time only.
      stopping.signal.throwIfAborted();
      void fresh.worker.run().catch(away);
      return fresh;
    } catch (error) {
      await close(fresh);
      throw error;
    }
  }

  async function look(queue: Backend["queue"]): Promise<void> {
    await deps.look(queue);
    const found = await queue.getJobCounts(...states);
    for (const [state, count] of Object.entries(found)) counts.set({ queue: name, state }, count);
  }

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      let pauseMs = deps.lookEveryMs;
      try {
        if (!areTablesMade) await makeTables(deps.address, stopping.signal);
        areTablesMade = true;
        backend ??= await open();
        // Commands to a store that is away may wait in the client: never more than once.
        looking ??= look(backend.queue).finally(() => {
          looking = undefined;
        });
        if (!(await within(2 * answerMs, looking))) throw new Error("the job queue does not answer");
        if (isAway) log.info({ queue: name }, "the job queue is reached again");
        isAway = false;
      } catch (error) {
        away(error);
        // What is not known is not shown: old figures would be taken for those of now.
        for (const state of states) counts.remove({ queue: name, state });
        pauseMs = Math.min(pauseMs, retryMs);
        // What runs goes on under the worker that began it, which must not get a second one beside it.
        if (!backend || isUnmade(error)) areTablesMade = false;
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

/** PostgreSQL does not know the queue's tables or functions any more: they are made anew. */
const isUnmade = (error: unknown): boolean =>
  error instanceof Error && "code" in error && ["3F000", "42P01", "42883"].includes(String(error.code));

/** Under BullMQ's own name, for all queues of this process. */
function jobCounts(registry: Registry): Gauge<"queue" | "state"> {
  const name = "bullmq_job_count";
  const known = registry.getSingleMetric(name);
  if (known) return known as Gauge<"queue" | "state">;
  return new Gauge({
    name,
    help: "Jobs of a queue by state, as last looked at; absent while the queue is away",
    labelNames: ["queue", "state"] as const,
    registers: [registry],
  });
}
