// Timers of deployments as delayed jobs of BullMQ: one for a deployment and a time, and one series of retries for a step that
// could not be done. A job carries the deployment's id and nothing else. None exists for what is at rest.
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import type { Timer, Timers } from "../deployments/timers.ts";
import type { JobsAddress } from "./backend.ts";
import { createStandingQueue, type StandingQueue } from "./standing-queue.ts";
import { timerJob } from "./timer-job.ts";

const name = "stoker-deployments";
/** A controller looks at one deployment at a time: another job is for another control plane, if there is one. */
const mostAtOnce = 1;
/** Until a store that refused the connection is asked for jobs again. */
const retryMs = 2_000;
/** New jobs announce themselves: an idle worker asks by itself so seldom. */
const idleSeconds = 30;
/** Timers that wait to be written. What is dropped the next look finds again. */
const mostKept = 1_000;
/** Older ones were done by a look meanwhile. */
const staleMs = 10_000;

export function createDeploymentTimers(deps: {
  readonly address: JobsAddress;
  readonly lookEveryMs?: number;
  /** A store that has not answered by then is away. */
  readonly answerMs?: number;
  readonly log: Logger;
  readonly registry: Registry;
}): Timers {
  const { log } = deps;
  let standing: StandingQueue | undefined;
  let isAdding = false;
  let isStopped = false;
  let kept: Timer[] = [];

  /** Commands to a store that is away wait in the client: never more than one of them. */
  function send(): void {
    const queue = standing?.queue();
    if (!queue || isAdding || isStopped) return;
    const nowMs = Date.now();
    const fresh = kept.filter(({ atMs }) => atMs > nowMs - staleMs).map((timer) => timerJob(timer, nowMs));
    kept = [];
    if (fresh.length === 0) return;
    const jobs = [...new Map(fresh.map((job) => [job.opts.jobId, job])).values()];
    isAdding = true;
    void queue
      .addBulk(jobs)
      .then(
        () => true,
        (error) => {
          log.debug({ err: error, timers: jobs.length }, "timers could not be written; the next look does without");
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
      standing ??= createStandingQueue({
        ...deps,
        name,
        async work({ name: kind, data }) {
          const { id } = data as Pick<Timer, "id">;
          try {
            await wake(id);
          } catch (error) {
            log.info(
              { err: error, deployment: id, kind },
              "a step of a deployment could not be done; it is tried again",
            );
            throw error;
          }
        },
        wishes: { concurrency: mostAtOnce, runRetryDelay: retryMs, drainDelay: idleSeconds },
        look: async () => send(),
        lookEveryMs: deps.lookEveryMs ?? 15_000,
      });
      standing.start();
    },
    add(timers) {
      kept.push(...timers.slice(0, Math.max(0, mostKept - kept.length)));
      send();
    },
    async stop() {
      isStopped = true;
      await standing?.stop();
    },
  };
}
