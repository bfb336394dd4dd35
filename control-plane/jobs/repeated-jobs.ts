// Work that returns every so often and that one control plane of several does at a time, as a rule. The queue promises at
// least once: each job must bear being run twice and by two at once.
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { Counter, Gauge, type Registry } from "prom-client";
import { type Backend, type JobsAddress, openBackend } from "./backend.ts";

export interface RepeatedJob {
  readonly name: string;
  readonly everyMs: number;
  run(signal: AbortSignal): Promise<unknown>;
}

export interface RepeatedJobs {
  /** In the background: a queue that cannot be reached is tried again, and holds nothing else up. */
  start(): void;
  /** Bounded, also when the queue is away. */
  stop(): Promise<void>;
}

const stopLimitMs = 5_000;
const retryMs = 5_000;

export function createRepeatedJobs(deps: {
  readonly address: JobsAddress;
  readonly jobs: readonly RepeatedJob[];
  readonly log: Logger;
  readonly registry: Registry;
  readonly keepFinishedMs: number;
  /** How often the schedules are looked for: they may have been wiped with the queue. */
  readonly lookEveryMs?: number;
}): RepeatedJobs {
  const { jobs, log } = deps;
  const byName = new Map(jobs.map((job) => [job.name, job]));
  const metrics = createJobMetrics(deps.registry);
  const stopping = new AbortController();
  let backend: Backend | undefined;
  let loop: Promise<void> | undefined;
  let isAway = false;

  const away = (error: unknown): void => {
    if (!isAway && !stopping.signal.aborted)
      log.warn({ err: error }, "the job queue cannot be reached; it is tried again");
    isAway = true;
  };

  async function work({ name }: { readonly name: string }): Promise<void> {
    const job = byName.get(name);
    // Another version's job: its own control planes do it.
    if (!job) return;
    const beganMs = performance.now();
    try {
      await job.run(stopping.signal);
      metrics.runs.inc({ job: name, outcome: "ok" });
      metrics.lastSuccess.set({ job: name }, Date.now() / 1000);
      log.debug({ job: name, ms: Math.round(performance.now() - beganMs) }, "job done");
    } catch (error) {
      metrics.runs.inc({ job: name, outcome: "failed" });
      log.warn({ err: error, job: name }, "a job failed; its next turn tries again");
      throw error;
    }
  }

  /** Makes the schedules that are missing or differ: one that stands keeps its next time. */
  async function schedule({ queue }: Backend): Promise<void> {
    for (const { name, everyMs } of jobs) {
      const known = await queue.getJobScheduler(name);
      if (known?.every === everyMs) continue;
      await queue.upsertJobScheduler(name, { every: everyMs }, { name, data: {} });
      log.info({ job: name, everySeconds: everyMs / 1000 }, "job scheduled");
    }
  }

  async function open(): Promise<Backend> {
    const fresh = openBackend(deps.address, work, Math.ceil(deps.keepFinishedMs / 1000));
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
      let pauseMs = deps.lookEveryMs ?? 60_000;
      try {
        backend ??= await open();
        await schedule(backend);
        if (isAway) log.info("the job queue is reached again");
        isAway = false;
      } catch (error) {
        away(error);
        pauseMs = Math.min(pauseMs, retryMs);
      }
      await wait(pauseMs, undefined, { signal: stopping.signal }).catch(() => {});
    }
  }

  return {
    start() {
      loop ??= run();
    },
    async stop() {
      stopping.abort();
      await within(stopLimitMs, Promise.resolve(loop));
      if (backend) await close(backend);
    },
  };
}

async function close({ worker, queue }: Backend): Promise<void> {
  await within(stopLimitMs, Promise.allSettled([worker.close(), queue.close()]));
}

/** Whatever is not done by then is left to the end of the process. */
async function within(limitMs: number, work: Promise<unknown>): Promise<void> {
  const timer = new AbortController();
  await Promise.race([work, wait(limitMs, undefined, { signal: timer.signal }).catch(() => {})]);
  timer.abort();
}

function createJobMetrics(registry: Registry) {
  const registers = [registry];
  return {
    runs: new Counter({
      name: "stoker_job_runs_total",
      help: "Repeated jobs done by this control plane, by outcome",
      labelNames: ["job", "outcome"] as const,
      registers,
    }),
    lastSuccess: new Gauge({
      name: "stoker_job_last_success_timestamp_seconds",
      help: "When this control plane last did a repeated job",
      labelNames: ["job"] as const,
      registers,
    }),
  };
}
