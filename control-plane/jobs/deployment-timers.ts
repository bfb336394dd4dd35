// Timers of deployments as delayed BullMQ jobs: one per deployment and time, and one series of retries for a failed step. A
// job carries only the deployment's id. Idle deployments have none.
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import type { Timer, Timers } from "../deployments/timers.ts";
import type { JobsAddress } from "./backend.ts";
import { type BackgroundQueue, createBackgroundQueue } from "./background-queue.ts";

const name = "stoker-deployments";
/** A controller processes one deployment at a time; other jobs go to other control planes. */
const maxConcurrent = 1;
/** Pause before jobs are requested again from a store that refused the connection. */
const retryMs = 2_000;
/** Poll interval of an idle worker; new jobs are announced. */
const idleSeconds = 30;
/** Timers waiting to be written. The next poll finds dropped ones again. */
const maxPending = 1_000;
/** A poll has handled older ones already. */
const staleMs = 10_000;

export function createDeploymentTimers(deps: {
  readonly address: JobsAddress;
  readonly pollEveryMs?: number;
  /** A store that does not respond within this time is unavailable. */
  readonly answerMs?: number;
  readonly log: Logger;
  readonly registry: Registry;
}): Timers {
  const { log } = deps;
  let background: BackgroundQueue | undefined;
  let isAdding = false;
  let isStopped = false;
  let pending: Timer[] = [];

  /** Commands wait in the client while the store is unavailable: at most one at a time. */
  function send(): void {
    const queue = background?.queue();
    if (!queue || isAdding || isStopped) return;
    const nowMs = Date.now();
    const fresh = pending.filter(({ atMs }) => atMs > nowMs - staleMs).map((timer) => timerJob(timer, nowMs));
    pending = [];
    if (fresh.length === 0) return;
    const jobs = [...new Map(fresh.map((job) => [job.opts.jobId, job])).values()];
    isAdding = true;
    void queue
      .addBulk(jobs)
      .then(
        () => true,
        (error) => {
          log.debug({ err: error, timers: jobs.length }, "could not write timers; the next poll replaces them");
          return false;
        },
      )
      .then((isThere) => {
        isAdding = false;
        if (isThere) send();
      });
  }

  return {
    start(wake) {
      background ??= createBackgroundQueue({
        ...deps,
        name,
        async work({ name: kind, data }) {
          const { id } = data as Pick<Timer, "id">;
          try {
            await wake(id);
          } catch (error) {
            log.info({ err: error, deployment: id, kind }, "deployment step failed; will retry");
            throw error;
          }
        },
        options: { concurrency: maxConcurrent, runRetryDelay: retryMs, drainDelay: idleSeconds },
        onPoll: async () => send(),
        pollEveryMs: deps.pollEveryMs ?? 15_000,
      });
      background.start();
    },
    add(timers) {
      pending.push(...timers.slice(0, Math.max(0, maxPending - pending.length)));
      send();
    },
    async stop() {
      isStopped = true;
      await background?.stop();
    },
  };
}

/** Rounds times up, because the clocks of control planes differ slightly. */
const roundMs = 250;
/** Delay after the due time, so that the woken controller sees it has passed. */
const graceMs = 20;
/** Retries of a failed step last half of this; a new series may start once per this period. */
const seriesMs = 60_000;
const tries = 8;
const firstPauseMs = 250;
/** How long failed jobs stay visible. */
const keepFailed = { age: 3_600, count: 1_000 };

/** Its id is derived from the timer, so that control planes that read the same rows add one job. */
export function timerJob({ id, kind, atMs }: Timer, nowMs: number) {
  const dueMs = kind === "due" ? Math.ceil((atMs + graceMs) / roundMs) * roundMs : atMs;
  const jobId = kind === "due" ? `${id}-due-${dueMs}` : `${id}-retry-${Math.floor(atMs / seriesMs)}`;
  return {
    name: kind,
    data: { id },
    opts: {
      jobId,
      delay: Math.max(0, dueMs - nowMs),
      attempts: tries,
      backoff: { type: "exponential", delay: firstPauseMs, jitter: 0.5 },
      // The id must be free again: the next timer of a deployment may have the same.
      removeOnComplete: true,
      removeOnFail: keepFailed,
    },
  };
}
