// A timer of a deployment as a job. Its id says what it stands for, so that several control planes that look at the same rows
// add one job.
import type { Timer } from "../deployments/timers.ts";

/** Times are rounded up to it: looks that see one time differ by their clocks. */
const roundMs = 250;
/** After the time itself, so that who is woken finds that it has passed. */
const graceMs = 20;
/** A step that cannot be done is tried for half of this; so often at most such a series begins anew. */
const seriesMs = 60_000;
const tries = 8;
const firstPauseMs = 250;
/** What was given up can be seen so long. */
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
