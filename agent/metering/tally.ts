// Divides GPU time into minutes of control-plane time. The monotonic clock determines the length of a span, the control
// plane's clock only its position, and no span starts before the end of the previous one. So no time is counted twice and no
// minute of an instance holds more than 60 seconds, whatever a clock does. Pure.

import { minuteMs, minuteOf } from "../../proto/gpu-minute.ts";
import type { DeploymentId, InstanceId } from "../../proto/ids.ts";

/** The minute of an instance that is not over yet. Times are whole unix ms of control-plane time. */
export interface Tally {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  readonly startMs: number;
  readonly readyMs: number;
  readonly throughMs: number;
  /** Its time is of sleep, which has a price of its own. */
  readonly isAsleep?: boolean;
}

interface Added {
  /** Minutes that are over, oldest first. */
  readonly ended: readonly Tally[];
  readonly open: Tally;
}

/** Adds `lengthMs` of ready time that ends at `nowMs`. Without `open` it is the instance's first. */
export function addSpan(
  of: Pick<Tally, "instanceId" | "deployId" | "isAsleep">,
  open: Tally | undefined,
  lengthMs: number,
  nowMs: number,
): Added {
  const { instanceId, deployId, isAsleep } = of;
  const named = { instanceId, deployId, ...(isAsleep ? { isAsleep } : {}) };
  let atMs = Math.max(open?.throughMs ?? 0, nowMs - lengthMs);
  const endMs = atMs + lengthMs;
  const ended: Tally[] = [];
  let now = open ?? { ...named, startMs: minuteOf(atMs), readyMs: 0, throughMs: atMs };
  for (;;) {
    if (minuteOf(atMs) > now.startMs) {
      if (now.readyMs > 0) ended.push(now);
      now = { ...named, startMs: minuteOf(atMs), readyMs: 0, throughMs: atMs };
    }
    const untilMs = Math.min(endMs, now.startMs + minuteMs);
    now = { ...now, readyMs: now.readyMs + untilMs - atMs, throughMs: untilMs };
    if (untilMs === endMs) return { ended, open: now };
    atMs = untilMs;
  }
}
