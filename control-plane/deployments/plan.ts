// Decides the next changes of a deployment's instances from values alone: how many to place, change in place, or remove.
// Invariants: a serving instance is removed only when another serves in its place, when fewer are desired, or when its
// host's deadline has passed; during a replacement at most one extra instance exists.

import type { InstanceId } from "../../proto/ids.ts";
import { isServing } from "../../proto/instance-phase.ts";
import type { DeploymentStatus, PlacedInstance } from "./deployment.ts";
import { hasFailed, isUpToDate, isWanted } from "./lifecycle.ts";

export interface Plan {
  /** Instances to place. */
  readonly place: number;
  readonly tombstone: readonly InstanceId[];
  /** Change these in place on their GPUs: none of them serves now. */
  readonly revise: readonly InstanceId[];
  /** The same for a serving one without capacity for a second instance: service is interrupted. */
  readonly inPlace: InstanceId | undefined;
  /** Failed instances among `tombstone`, replaced while others serve. */
  readonly replaced: number;
}

export interface WantedInstances {
  readonly status: DeploymentStatus;
  readonly target: number;
  readonly spec: number;
  /** A failed instance beside serving ones may be replaced now: its back-off has passed. */
  readonly mayReplace: boolean;
}

const nothing: Plan = { place: 0, tombstone: [], revise: [], inPlace: undefined, replaced: 0 };

export function planInstances(want: WantedInstances, instances: readonly PlacedInstance[]): Plan {
  const live = instances.filter((instance) => !instance.isTombstoned);
  if (!isWanted(want.status)) return { ...nothing, tombstone: idsOf(live) };
  const { target } = want;
  const here = live.filter((instance) => !instance.isHostLost).sort(byWorthOfKeeping);
  const isCurrent = (one: PlacedInstance) => one.spec === want.spec && one.leaving === undefined;

  // A working instance is never the one to remove.
  const current = here.filter(isCurrent);
  const kept = current.slice(0, target);
  const surplus = current.slice(target);
  // While another instance serves, or may return with its host, a failure does not fail the deployment.
  const isCovered = live.some((one) => isServing(one.phase));
  const broken = want.mayReplace && isCovered ? kept.filter(hasFailed) : [];
  const staying = kept.length - broken.length;

  const old = here.filter((one) => !isCurrent(one));
  const oldServing = old.filter((one) => isServing(one.phase));
  const oldNeeded = Math.max(0, target - kept.filter(isUpToDate).length);
  const oldKept = oldServing.slice(0, oldNeeded).filter((one) => one.leaving !== "due");
  const idle = old.filter((one) => !isServing(one.phase));
  const revise = idle
    .filter((one) => one.leaving === undefined && !sharesGpu(one))
    .slice(0, Math.max(0, target - staying));

  const missing = target - staying - revise.length;
  const capacity = target + (oldKept.length > 0 ? 1 : 0) - staying - revise.length - oldKept.length;
  const isBusy = kept.some((one) => !isUpToDate(one)) || revise.length > 0;
  const changeable = oldKept.findLast((one) => one.leaving === undefined && !sharesGpu(one));

  // Instances on lost hosts may still serve: remove them once their replacements serve.
  const isReplaced = kept.length === target && kept.every((one) => isServing(one.phase));
  const stale = isReplaced ? live.filter((one) => one.isHostLost) : [];
  const gone = old.filter((one) => !oldKept.includes(one) && !revise.includes(one));
  return {
    place: Math.max(0, Math.min(missing, capacity)),
    tombstone: idsOf([...surplus, ...broken, ...gone, ...stale]),
    revise: idsOf(revise),
    inPlace: missing > 0 && !isBusy ? changeable?.id : undefined,
    replaced: broken.length,
  };
}

const firstDelayMs = 10_000;
const maxDelayMs = 300_000;
/** After this time without a failure, earlier replacements are forgotten. */
const calmMs = 30 * 60_000;

/** Earliest time of the next replacement: the delay doubles with each. */
export function replacementsAt(
  { replacements, replacedAtMs }: { readonly replacements: number; readonly replacedAtMs: number },
  nowMs: number,
): { readonly count: number; readonly isDue: boolean; readonly dueAtMs: number } {
  const sinceMs = nowMs - replacedAtMs;
  const count = sinceMs < calmMs ? replacements : 0;
  const delayMs = count === 0 ? 0 : Math.min(maxDelayMs, firstDelayMs * 2 ** (count - 1));
  return { count, isDue: sinceMs >= delayMs, dueAtMs: replacedAtMs + delayMs };
}

/** Its share of the GPU, and its price, were sized for the current run: another run is placed again. */
const sharesGpu = (one: PlacedInstance) => one.gpuMemoryBytes > 0;

const idsOf = (instances: readonly PlacedInstance[]) => instances.map((instance) => instance.id);

/** Serving instances first, the busiest first among them, then the oldest: the last one is removed. */
function byWorthOfKeeping(a: PlacedInstance, b: PlacedInstance): number {
  const serving = Number(isServing(b.phase)) - Number(isServing(a.phase));
  return serving || (b.load ?? 0) - (a.load ?? 0) || a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1);
}
