// Status of a deployment (interface.md 6.6) derived from its instances. No clock, no store.
import { isServing } from "../../proto/instance-phase.ts";
import { unreachable } from "../../proto/unreachable.ts";
import type { DeploymentStatus, PlacedInstance } from "./deployment.ts";

export interface Outcome {
  readonly status: DeploymentStatus;
  readonly failReason: string;
  /** Desired specification: after a failed update the last one that served. */
  readonly spec: number;
  readonly servingSpec: number;
  /** Why the update was reverted. */
  readonly updateError: string;
}

export interface DeploymentState extends Outcome {
  /** Desired number of instances. */
  readonly target: number;
}

const progress = ["initializing", "downloading", "deploying"] as const;

/** Returns the status after a report of its instances; unchanged when nothing requires a change. */
export function statusAfter(now: DeploymentState, instances: readonly PlacedInstance[]): Outcome {
  const { status, failReason, spec, servingSpec, updateError } = now;
  const same: Outcome = { status, failReason, spec, servingSpec, updateError };
  const live = instances.filter((instance) => !instance.isTombstoned);
  if (isWanted(status)) {
    const broken = brokenUpdate(now, live);
    if (broken) return { ...same, spec: servingSpec, updateError: reasonOf(broken) };
  }
  // An instance on a lost host is ignored, except one that served and may return.
  const hasServed = status === "deployed" || status === "updating";
  const judged = live.filter((one) => !one.isHostLost || hasFailed(one) || (hasServed && isServing(one.phase)));
  const failed = (): Outcome => ({ ...same, status: "failed", failReason: reasonOf(judged[0] as PlacedInstance) });
  const upToDate = live.filter((one) => one.spec === spec && isUpToDate(one));
  const deployed = (): Outcome => ({ ...same, status: "deployed", failReason: "", ...servedBy(now, upToDate) });
  switch (status) {
    case "initializing":
    case "downloading":
    case "deploying":
      if (allFailed(judged, spec)) return failed();
      if (upToDate.length > 0) return deployed();
      return { ...same, status: furthest(status, live), failReason: "" };
    case "deployed":
      return allFailed(judged, spec) ? failed() : { ...same, ...servedBy(now, upToDate) };
    case "updating": {
      if (allFailed(judged, spec)) return failed();
      const isDone = upToDate.length >= now.target && upToDate.length === live.length;
      return isDone ? deployed() : same;
    }
    case "stopping":
      // A lost host cannot confirm: its tombstones wait for its return and delay nothing. The reason of a stop by the system
      // is shown until the next start.
      return instances.every((instance) => instance.isHostLost) ? { ...same, status: "stopped" } : same;
    case "stopped":
    case "failed":
    case "deleted":
      return same;
    default:
      return unreachable(status);
  }
}

/** Returns a failed instance of an update that never served, when no other instance of it serves. */
function brokenUpdate(
  { spec, servingSpec }: DeploymentState,
  live: readonly PlacedInstance[],
): PlacedInstance | undefined {
  if (spec === servingSpec || servingSpec === 0) return undefined;
  const own = live.filter((one) => one.spec === spec);
  return own.some(isUpToDate) ? undefined : own.find(hasFailed);
}

/** A deployment that woke up or finished its update has proven its desired specification. */
function servedBy(
  { spec, servingSpec, updateError }: DeploymentState,
  upToDate: readonly PlacedInstance[],
): Pick<Outcome, "servingSpec" | "updateError"> {
  return upToDate.length > 0 && spec !== servingSpec
    ? { servingSpec: spec, updateError: "" }
    : { servingSpec, updateError };
}

/** Desired instances that do not serve yet. */
export function pendingOf(now: Pick<DeploymentState, "status" | "target">, running: number): number {
  return isWanted(now.status) ? Math.max(0, now.target - running) : 0;
}

/** True while instances of the deployment should exist. */
export function isWanted(status: DeploymentStatus): boolean {
  switch (status) {
    case "initializing":
    case "downloading":
    case "deploying":
    case "deployed":
    case "updating":
      return true;
    case "stopping":
    case "stopped":
    case "failed":
    case "deleted":
      return false;
    default:
      return unreachable(status);
  }
}

/** Desired instances by load, within the owner's bounds. 0: asleep. */
export function targetOf(scale: {
  readonly target: number;
  readonly minInstances: number;
  readonly maxInstances: number;
}): number {
  return Math.max(scale.minInstances, Math.min(scale.target, scale.maxInstances));
}

/** Serves its desired generation; an older one may keep serving until it is changed. */
export const isUpToDate = (instance: PlacedInstance) =>
  isServing(instance.phase) && instance.observedGeneration >= instance.generation && !instance.isHostLost;

/** Its agent has no more retries. A failure of an earlier generation does not count. */
export const hasFailed = (instance: PlacedInstance) =>
  instance.phase === "failed" && instance.observedGeneration >= instance.generation;

/** An instance that failed with an earlier specification has not tried the desired one. */
const allFailed = (live: readonly PlacedInstance[], spec: number) =>
  live.length > 0 && live.every((one) => hasFailed(one) && one.spec === spec);

function reasonOf({ failCode, failMessage }: PlacedInstance): string {
  const reason = [failCode, failMessage].filter((part) => part !== "").join(": ");
  return reason || "instance_failed: the instance stopped without a reason; see its log";
}

/** Never backwards: a restart of one instance does not reset the deployment's progress. */
function furthest(current: (typeof progress)[number], live: readonly PlacedInstance[]): (typeof progress)[number] {
  const reached = live.map((instance) => {
    switch (instance.phase) {
      case "downloading":
        return 1;
      case "creating":
      case "loading":
      case "ready":
      case "asleep":
      case "waking":
      case "draining":
        return 2;
      case "pending":
      case "stopped":
      case "failed":
        return 0;
      default:
        return unreachable(instance.phase);
    }
  });
  return progress[Math.max(progress.indexOf(current), ...reached)] as (typeof progress)[number];
}
