// Time-based events of deployments, and the port that wakes a controller for them. Implemented by jobs/deployment-timers.ts.
// INVARIANT: a timer decides nothing. The controller reads the rows and decides again, so a lost, late or duplicate timer
// only costs time: every few seconds it polls everything anyway.

import type { DeploymentId, HostId } from "../../proto/ids.ts";
import { isServing } from "../../proto/instance-phase.ts";
import type { Deployment, PlacedInstance } from "./deployment.ts";
import { hasFailed, isWanted } from "./lifecycle.ts";
import { replacementsAt } from "./plan.ts";

export interface Timer {
  readonly id: DeploymentId;
  /** `due`: a time was reached; `retry`: a failed step. */
  readonly kind: "due" | "retry";
  /** Unix ms by the setter's clock. */
  readonly atMs: number;
}

export interface Timers {
  /** Runs in the background. When `wake` throws, it is called again a few times with growing pauses. */
  start(wake: (id: DeploymentId) => Promise<void>): void;
  /** An existing timer is unchanged. Never waits and never throws: timers are dropped while the queue is unavailable. */
  add(timers: readonly Timer[]): void;
  /** Bounded. */
  stop(): Promise<void>;
}

/** Times of one host, in ms from now; undefined: none. */
export interface HostTimes {
  /** Until a silent host counts as lost. */
  untilLostMs(host: HostId): number | undefined;
  /** Until a drained host's deadline. */
  untilDueMs(host: HostId): number | undefined;
}

/** Returns the next Unix ms at which a controller may have to act without an event. */
export function nextDueMs(
  deployment: Pick<Deployment, "kind" | "status" | "replacements" | "replacedAtMs">,
  instances: readonly PlacedInstance[],
  hosts: HostTimes,
  nowMs: number,
): number | undefined {
  // Data on one host's disk waits for its host, however long.
  const isMovable = deployment.kind === "model";
  const live = instances.filter((one) => !one.isTombstoned);
  const times: (number | undefined)[] = [];
  if (isMovable) {
    // A stop completes once no instance is left that could confirm it.
    const waitedFor = isWanted(deployment.status) ? live : instances;
    for (const { hostId } of waitedFor) times.push(hosts.untilLostMs(hostId));
    for (const { hostId } of live) times.push(hosts.untilDueMs(hostId));
  }
  if (live.some(hasFailed) && live.some((one) => isServing(one.phase))) {
    const { isDue, dueAtMs } = replacementsAt(deployment, nowMs);
    if (!isDue) times.push(dueAtMs - nowMs);
  }
  const ahead = times.filter((time) => time !== undefined && time > 0) as number[];
  return ahead.length > 0 ? nowMs + Math.min(...ahead) : undefined;
}
