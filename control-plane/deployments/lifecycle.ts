// The states of a deployment (interface.md 6.6) as values: what it is called given what its instances do. No clock, no store.
import { unreachable } from "../../proto/unreachable.ts";
import type { DeploymentStatus, PlacedInstance } from "./deployment.ts";

export interface Outcome {
  readonly status: DeploymentStatus;
  readonly failReason: string;
}

export interface Standing {
  readonly status: DeploymentStatus;
  readonly failReason: string;
  readonly generation: number;
  /** Instances wanted. */
  readonly target: number;
}

const progress = ["initializing", "downloading", "deploying"] as const;

/** Where a deployment stands after its instances reported. The same as before when nothing speaks for a change. */
export function statusAfter(standing: Standing, instances: readonly PlacedInstance[]): Outcome {
  const same: Outcome = { status: standing.status, failReason: standing.failReason };
  const live = instances.filter((instance) => !instance.isTombstoned);
  switch (standing.status) {
    case "initializing":
    case "downloading":
    case "deploying":
      if (allFailed(live)) return failed(live);
      if (live.some((instance) => serves(instance, standing.generation))) return { status: "deployed", failReason: "" };
      return { status: furthest(standing.status, live), failReason: "" };
    case "deployed":
      return allFailed(live) ? failed(live) : same;
    case "updating": {
      if (allFailed(live)) return failed(live);
      const upToDate = live.filter((instance) => serves(instance, standing.generation));
      const isDone = upToDate.length >= standing.target && upToDate.length === live.length;
      return isDone ? { status: "deployed", failReason: "" } : same;
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
      return unreachable(standing.status);
  }
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

/** Instances wanted. At least one: scale to zero needs a way to start on demand, which does not exist yet. */
export function targetOf(scale: { readonly minInstances: number }): number {
  return Math.max(1, scale.minInstances);
}

const serves = (instance: PlacedInstance, generation: number) =>
  instance.phase === "ready" && instance.observedGeneration >= generation && !instance.isHostLost;

// A failure of the generation before speaks of arguments that were replaced since.
const allFailed = (live: readonly PlacedInstance[]) =>
  live.length > 0 &&
  live.every((instance) => instance.phase === "failed" && instance.observedGeneration >= instance.generation);

function failed(live: readonly PlacedInstance[]): Outcome {
  const first = live[0] as PlacedInstance;
  const reason = [first.failCode, first.failMessage].filter((part) => part !== "").join(": ");
  return {
    status: "failed",
    failReason: reason || "instance_failed: the instance ended without saying why; see its log",
  };
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
