// What of a deployment comes due by time alone, and what a controller needs of whoever wakes it then. Implemented by
// jobs/deployment-timers.ts. INVARIANT: a timer decides nothing. Whoever is woken reads the rows and decides anew, so one that
// is lost, late or there twice costs time at most: the controller looks at everything every few seconds anyway.
import type { DeploymentId, HostId } from "../../proto/ids.ts";
import type { Deployment, PlacedInstance } from "./deployment.ts";
import { hasFailed, isWanted } from "./lifecycle.ts";
import { replacementsAt } from "./plan.ts";

export interface Timer {
  readonly id: DeploymentId;
  /** `due`: a time has come; `retry`: a step that could not be done. */
  readonly kind: "due" | "retry";
  /** Unix ms by the clock of who set it. */
  readonly atMs: number;
}

export interface Timers {
  /** In the background, as long as it takes. What `wake` throws has it called again after pauses that grow, a few times. */
  start(wake: (id: DeploymentId) => Promise<void>): void;
  /** One that is there already stays as it is. Never waits and never throws: while the queue is away timers are dropped. */
  add(timers: readonly Timer[]): void;
  /** Bounded. */
  stop(): Promise<void>;
}

/** Of one host, in ms from now; undefined: nothing of that kind is to come. */
export interface HostTimes {
  /** Until one that is silent counts as lost. */
  untilLostMs(host: HostId): number | undefined;
  /** Until one that is being emptied waits for replacements no longer. */
  untilDueMs(host: HostId): number | undefined;
}

/** The next time, Unix ms, at which a controller may have to act although nothing was said to it. */
export function nextDueMs(
  deployment: Pick<Deployment, "kind" | "status" | "replacements" | "replacedAtMs">,
  instances: readonly PlacedInstance[],
  hosts: HostTimes,
  nowMs: number,
): number | undefined {
  // What lives on one host's disk waits for its host, however long.
  const isMovable = deployment.kind === "model";
  const live = instances.filter((one) => !one.isTombstoned);
  const times: (number | undefined)[] = [];
  if (isMovable) {
    // What is being stopped is stopped once nobody is left who could confirm it.
    const waitedFor = isWanted(deployment.status) ? live : instances;
    for (const { hostId } of waitedFor) times.push(hosts.untilLostMs(hostId));
    for (const { hostId } of live) times.push(hosts.untilDueMs(hostId));
  }
  if (live.some(hasFailed) && live.some((one) => one.phase === "ready")) {
    const { isDue, dueAtMs } = replacementsAt(deployment, nowMs);
    if (!isDue) times.push(dueAtMs - nowMs);
  }
  const ahead = times.filter((time) => time !== undefined && time > 0) as number[];
  return ahead.length > 0 ? nowMs + Math.min(...ahead) : undefined;
}
