// The states of a deployment (interface.md 6.6) as values: what it is called given what its instances do. No clock, no store.
import { unreachable } from "../../proto/unreachable.ts";
import type { DeploymentStatus, PlacedInstance } from "./deployment.ts";

export interface Outcome {
  readonly status: DeploymentStatus;
  readonly failReason: string;
  /** What is to run: the last that served where an update did not come up. */
  readonly spec: number;
  readonly servingSpec: number;
  /** Why the update was taken back. */
  readonly updateError: string;
}

export interface Standing extends Outcome {
  /** Instances wanted. */
  readonly target: number;
}

const progress = ["initializing", "downloading", "deploying"] as const;

/** Where a deployment stands after its instances reported. The same as before when nothing speaks for a change. */
export function statusAfter(standing: Standing, instances: readonly PlacedInstance[]): Outcome {
  const { status, failReason, spec, servingSpec, updateError } = standing;
  const same: Outcome = { status, failReason, spec, servingSpec, updateError };
  const live = instances.filter((instance) => !instance.isTombstoned);
  if (isWanted(status)) {
    const broken = brokenUpdate(standing, live);
    if (broken) return { ...same, spec: servingSpec, updateError: reasonOf(broken) };
  }
  // A copy on a lost host holds up no verdict, but for one that served and may come back.
  const hasServed = status === "deployed" || status === "updating";
  const judged = live.filter((one) => !one.isHostLost || hasFailed(one) || (hasServed && one.phase === "ready"));
  const failed = (): Outcome => ({ ...same, status: "failed", failReason: reasonOf(judged[0] as PlacedInstance) });
  const upToDate = live.filter((one) => one.spec === spec && isUpToDate(one));
  const deployed = (): Outcome => ({ ...same, status: "deployed", failReason: "", ...servedBy(standing, upToDate) });
  switch (status) {
    case "initializing":
    case "downloading":
    case "deploying":
      if (allFailed(judged)) return failed();
      if (upToDate.length > 0) return deployed();
      return { ...same, status: furthest(status, live), failReason: "" };
    case "deployed":
      return allFailed(judged) ? failed() : { ...same, ...servedBy(standing, upToDate) };
    case "updating": {
      if (allFailed(judged)) return failed();
      const isDone = upToDate.length >= standing.target && upToDate.length === live.length;
      return isDone ? deployed() : same;
    }
    case "stopping":
      // A lost host cannot confirm; its tombstones wait for its return and hold nobody up.
      // Why it was stopped, if not by its owner, is told until it starts again.
      return instances.every((instance) => instance.isHostLost) ? { ...same, status: "stopped" } : same;
    case "stopped":
    case "failed":
    case "deleted":
      return same;
    default:
      return unreachable(status);
  }
}

/** Of an update that was never seen to serve, an instance that gave up while no other of it serves. */
function brokenUpdate({ spec, servingSpec }: Standing, live: readonly PlacedInstance[]): PlacedInstance | undefined {
  if (spec === servingSpec || servingSpec === 0) return undefined;
  const own = live.filter((one) => one.spec === spec);
  return own.some(isUpToDate) ? undefined : own.find(hasFailed);
}

/** A deployment that was woken or finished its update has shown that what is wanted can serve. */
function servedBy(
  { spec, servingSpec, updateError }: Standing,
  upToDate: readonly PlacedInstance[],
): Pick<Outcome, "servingSpec" | "updateError"> {
  return upToDate.length > 0 && spec !== servingSpec
    ? { servingSpec: spec, updateError: "" }
    : { servingSpec, updateError };
}

/** How many are still wanted beside those that serve. */
export function pendingOf(standing: Pick<Standing, "status" | "target">, running: number): number {
  return isWanted(standing.status) ? Math.max(0, standing.target - running) : 0;
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

/** Instances wanted: what load asks for, within the bounds that its owner set. 0: asleep. */
export function targetOf(scale: {
  readonly target: number;
  readonly minInstances: number;
  readonly maxInstances: number;
}): number {
  return Math.max(scale.minInstances, Math.min(scale.target, scale.maxInstances));
}

/** Serves what it should; one of an older generation may serve on until it is changed. */
export const isUpToDate = (instance: PlacedInstance) =>
  instance.phase === "ready" && instance.observedGeneration >= instance.generation && !instance.isHostLost;

/** Its agent has tried what there was to try. A failure of the generation before speaks of what was replaced since. */
export const hasFailed = (instance: PlacedInstance) =>
  instance.phase === "failed" && instance.observedGeneration >= instance.generation;

const allFailed = (live: readonly PlacedInstance[]) => live.length > 0 && live.every(hasFailed);

function reasonOf({ failCode, failMessage }: PlacedInstance): string {
  const reason = [failCode, failMessage].filter((part) => part !== "").join(": ");
  return reason || "instance_failed: the instance ended without saying why; see its log";
}

/** Never backwards: a restart inside one instance is not a new beginning of the deployment. */
function furthest(current: (typeof progress)[number], live: readonly PlacedInstance[]): (typeof progress)[number] {
  const reached = live.map((instance) => {
    switch (instance.phase) {
      case "downloading":
        return 1;
      case "creating":
      case "loading":
      case "ready":
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
