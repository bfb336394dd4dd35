// Work that returns every so often and that one control plane of several does at a time, as a rule. The queue promises at
// least once: each job must bear being run twice and by two at once.
import type { Logger } from "pino";
import { Counter, Gauge, type Registry } from "prom-client";
import type { Backend, JobsAddress } from "./backend.ts";
import { createStandingQueue, type StandingQueue } from "./standing-queue.ts";

export interface RepeatedJob {
  readonly name: string;
  readonly everyMs: number;
  run(signal: AbortSignal): Promise<unknown>;
}

export type RepeatedJobs = Pick<StandingQueue, "start" | "stop">;

export function createRepeatedJobs(deps: {
  readonly address: JobsAddress;
  readonly jobs: readonly RepeatedJob[];
  readonly log: Logger;
  readonly registry: Registry;
  readonly keepFinishedMs: number;
  /** How often the schedules are looked for: they may have been wiped with the queue. */
  readonly lookEveryMs?: number;
  /** A store that has not answered by then is away. */
  readonly answerMs?: number;
}): RepeatedJobs {
  const { jobs, log } = deps;
  const byName = new Map(jobs.map((job) => [job.name, job]));
  const metrics = createJobMetrics(deps.registry);
  const stopping = new AbortController();

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
  async function schedule(queue: Backend["queue"]): Promise<void> {
    for (const { name, everyMs } of jobs) {
      const known = await queue.getJobScheduler(name);
      if (known?.every === everyMs) continue;
      await queue.upsertJobScheduler(name, { every: everyMs }, { name, data: {} });
      log.info({ job: name, everySeconds: everyMs / 1000 }, "job scheduled");
    }
  }

  const keep = { age: Math.ceil(deps.keepFinishedMs / 1000) };
  const standing = createStandingQueue({
    ...deps,
    name: "stoker",
    work,
    wishes: { concurrency: 2, removeOnComplete: keep, removeOnFail: keep },
    look: schedule,
    lookEveryMs: deps.lookEveryMs ?? 60_000,
  });
  return {
    start: standing.start,
    stop() {
      stopping.abort();
      return standing.stop();
    },
  };
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
