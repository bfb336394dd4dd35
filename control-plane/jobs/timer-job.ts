// A timer of a deployment as a job. Its id is derived from the timer, so that control planes that read the same rows add one
// job.
import type { Timer } from "../deployments/timers.ts";

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
