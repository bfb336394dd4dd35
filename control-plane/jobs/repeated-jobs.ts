// Periodic work, normally done by one control plane at a time. The queue delivers at least once: each job must tolerate
// repeated runs, and concurrent ones of several control planes.
import type { Logger } from "pino";
import { Counter, Gauge, type Registry } from "prom-client";
import type { Backend, JobsAddress } from "./backend.ts";
import { type BackgroundQueue, createBackgroundQueue } from "./background-queue.ts";

/** The metrics count runs; thousands of rows of successful ones a day would say no more. */
const finished = { removeOnComplete: true, removeOnFail: { count: 100 } };

export interface RepeatedJob {
  readonly name: string;
  readonly everyMs: number;
  run(signal: AbortSignal): Promise<unknown>;
}

export type RepeatedJobs = Pick<BackgroundQueue, "start" | "stop">;

export function createRepeatedJobs(deps: {
  readonly address: JobsAddress;
  readonly jobs: readonly RepeatedJob[];
  readonly log: Logger;
  readonly registry: Registry;
  readonly keepFinishedMs: number;
  /** How often missing schedules are recreated: they may have been wiped with the queue. */
  readonly pollEveryMs?: number;
  /** A store that does not respond within this time is unavailable. */
  readonly answerMs?: number;
}): RepeatedJobs {
  const { jobs, log } = deps;
  const byName = new Map(jobs.map((job) => [job.name, job]));
  const metrics = createJobMetrics(deps.registry);
  const stopping = new AbortController();
  const running = new Set<string>();

  async function work({ name }: { readonly name: string }): Promise<void> {
    const job = byName.get(name);
    // A job of another version: control planes of that version run it.
    if (!job) return;
    // A run that lasts beyond the next one's time must not take the slots of other jobs.
    if (running.has(name)) return;
    running.add(name);
    const beganMs = performance.now();
    try {
      await job.run(stopping.signal);
      metrics.runs.inc({ job: name, outcome: "ok" });
      metrics.lastSuccess.set({ job: name }, Date.now() / 1000);
      log.debug({ job: name, ms: Math.round(performance.now() - beganMs) }, "job done");
    } catch (error) {
      metrics.runs.inc({ job: name, outcome: "failed" });
      log.warn({ err: error, job: name }, "job failed; will retry at its next run");
      throw error;
    } finally {
      running.delete(name);
    }
  }

  /** Creates schedules that are missing or differ; an existing one keeps its next time. */
  async function schedule(queue: Backend["queue"]): Promise<void> {
    for (const { name, everyMs } of jobs) {
      const known = await queue.getJobScheduler(name);
      if (known?.every === everyMs) continue;
      await queue.upsertJobScheduler(name, { every: everyMs }, { name, data: {}, opts: finished });
      log.info({ job: name, everySeconds: everyMs / 1000 }, "job scheduled");
    }
  }

  const keep = { age: Math.ceil(deps.keepFinishedMs / 1000) };
  const background = createBackgroundQueue({
    ...deps,
    name: "stoker",
    work,
    options: { concurrency: 2, removeOnComplete: keep, removeOnFail: keep },
    onPoll: schedule,
    pollEveryMs: deps.pollEveryMs ?? 60_000,
  });
  return {
    start: background.start,
    stop() {
      stopping.abort();
      return background.stop();
    },
  };
}

function createJobMetrics(registry: Registry) {
  const registers = [registry];
  return {
    runs: new Counter({
      name: "stoker_job_runs_total",
      help: "Repeated jobs run by this control plane, by outcome",
      labelNames: ["job", "outcome"] as const,
      registers,
    }),
    lastSuccess: new Gauge({
      name: "stoker_job_last_success_timestamp_seconds",
      help: "Time of the last successful run of a repeated job by this control plane",
      labelNames: ["job"] as const,
      registers,
    }),
  };
}
