// Settings of a deployment's scaling beside its minimum and maximum, and their checks.
import { deploymentRefused } from "./errors.ts";
import { isTimeZone, maxSchedules, type Schedule, scheduledMin, weekdays } from "./schedules.ts";

export interface Scaling {
  /** Maximum p95 of the time to the first token of streamed requests. */
  readonly targetTtftMs?: number;
  /** Maximum p95 of the time in an instance's queue. */
  readonly targetQueueMs?: number;
  readonly schedules?: readonly Schedule[];
}

/** Each replaces the current one; null removes it. */
export type ScalingUpdate = { readonly [Key in keyof Scaling]?: Scaling[Key] | null };

export function scalingAfter(now: Scaling, update: ScalingUpdate): Scaling {
  const next = { ...now, ...update };
  return {
    ...(next.targetTtftMs ? { targetTtftMs: next.targetTtftMs } : {}),
    ...(next.targetQueueMs ? { targetQueueMs: next.targetQueueMs } : {}),
    ...(next.schedules?.length ? { schedules: next.schedules } : {}),
  };
}

/** Throws deploymentRefused. Lengths and formats were checked with the request. */
export function checkScaling({ schedules = [] }: Scaling, maxInstances: number): void {
  const refuse = (message: string) => deploymentRefused(`settings: ${message}`, { param: "settings" });
  if (schedules.length > maxSchedules) throw refuse(`schedules may have at most ${maxSchedules} entries.`);
  for (const [n, { days, from, to, timeZone, minInstances }] of schedules.entries()) {
    const at = `schedules[${n}]`;
    if (days.length === 0) throw refuse(`${at}.days must name at least one of ${weekdays.join(", ")}.`);
    if (from === to) throw refuse(`${at}.from and to must differ; a whole day is 00:00 to 24:00.`);
    if (!isTimeZone(timeZone))
      throw refuse(`${at}.time_zone ${timeZone} is unknown. Use an IANA name such as Europe/Berlin or UTC.`);
    if (minInstances > maxInstances)
      throw refuse(`${at}.min_instances must be at most max_instances, which is ${maxInstances}.`);
  }
}

/** Maximum time that a scheduled instance starts ahead. */
const maxAheadMs = 30 * 60_000;

/** Minimum of the settings and the schedules, which count from when an instance must start to serve in time. */
export function minAt(
  {
    minInstances,
    maxInstances,
    scaling,
    startMs,
  }: {
    readonly minInstances: number;
    readonly maxInstances: number;
    readonly scaling: Scaling;
    /** Duration of a recent start; 0: unknown. */
    readonly startMs: number;
  },
  unixMs: number,
): number {
  const { schedules = [] } = scaling;
  if (schedules.length === 0) return minInstances;
  const scheduled = Math.max(
    scheduledMin(schedules, unixMs),
    scheduledMin(schedules, unixMs + Math.min(startMs, maxAheadMs)),
  );
  return Math.max(minInstances, Math.min(scheduled, maxInstances));
}
