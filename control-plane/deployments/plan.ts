// What a deployment's instances need next, decided from values alone: how many to place, which to change where they are,
// which to send away. Invariants: a copy that serves goes only when another serves in its place, when fewer are wanted, or
// when its host may wait no longer; at most one more than wanted exists while something is replaced.

import type { InstanceId } from "../../proto/ids.ts";
import type { DeploymentStatus, PlacedInstance } from "./deployment.ts";
import { hasFailed, isUpToDate, isWanted } from "./lifecycle.ts";

export interface Plan {
  /** Instances to place. */
  readonly place: number;
  readonly tombstone: readonly InstanceId[];
  /** To run what is wanted on the GPUs they have: nothing serves there now. */
  readonly revise: readonly InstanceId[];
  /** The same of one that serves, where nothing can be placed beside it: it does not serve meanwhile. */
  readonly inPlace: InstanceId | undefined;
  /** Among `tombstone`: failed while others serve, and replaced. */
  readonly replaced: number;
}

export interface WantedInstances {
  readonly status: DeploymentStatus;
  readonly target: number;
  readonly spec: number;
  /** One that failed while others serve, or may again, may be replaced now: its back-off is over. */
  readonly mayReplace: boolean;
}

const nothing: Plan = { place: 0, tombstone: [], revise: [], inPlace: undefined, replaced: 0 };

export function planInstances(want: WantedInstances, instances: readonly PlacedInstance[]): Plan {
  const live = instances.filter((instance) => !instance.isTombstoned);
  if (!isWanted(want.status)) return { ...nothing, tombstone: idsOf(live) };
  const { target } = want;
  const here = live.filter((instance) => !instance.isHostLost).sort(byWorthOfKeeping);
  const isCurrent = (one: PlacedInstance) => one.spec === want.spec && one.leaving === undefined;

  // A copy that works is never the one that goes.
  const current = here.filter(isCurrent);
  const kept = current.slice(0, target);
  const surplus = current.slice(target);
  // While another serves, or may come back with its host, one that failed is not the end of the deployment.
  const isCovered = live.some((one) => one.phase === "ready");
  const broken = want.mayReplace && isCovered ? kept.filter(hasFailed) : [];
  const staying = kept.length - broken.length;

  const old = here.filter((one) => !isCurrent(one));
  const oldServing = old.filter((one) => one.phase === "ready");
  const oldNeeded = Math.max(0, target - kept.filter(isUpToDate).length);
  const oldKept = oldServing.slice(0, oldNeeded).filter((one) => one.leaving !== "due");
  const idle = old.filter((one) => one.phase !== "ready");
  const revise = idle
    .filter((one) => one.leaving === undefined && !sharesGpu(one))
    .slice(0, Math.max(0, target - staying));

  const missing = target - staying - revise.length;
  const room = target + (oldKept.length > 0 ? 1 : 0) - staying - revise.length - oldKept.length;
  const isBusy = kept.some((one) => !isUpToDate(one)) || revise.length > 0;
  const changeable = oldKept.findLast((one) => one.leaving === undefined && !sharesGpu(one));

  // Copies on lost hosts may still be serving somebody there: they go once their replacements serve.
  const isReplaced = kept.length === target && kept.every((one) => one.phase === "ready");
  const stale = isReplaced ? live.filter((one) => one.isHostLost) : [];
  const gone = old.filter((one) => !oldKept.includes(one) && !revise.includes(one));
  return {
    place: Math.max(0, Math.min(missing, room)),
    tombstone: idsOf([...surplus, ...broken, ...gone, ...stale]),
    revise: idsOf(revise),
    inPlace: missing > 0 && !isBusy ? changeable?.id : undefined,
    replaced: broken.length,
  };
}

const firstDelayMs = 10_000;
const longestDelayMs = 300_000;
/** So long without one, earlier ones are forgotten. */
const calmMs = 30 * 60_000;

/** What is replaced after `replacements` others: each waits twice as long as the one before. */
export function replacementsAt(
  { replacements, replacedAtMs }: { readonly replacements: number; readonly replacedAtMs: number },
  nowMs: number,
): { readonly count: number; readonly isDue: boolean; readonly dueAtMs: number } {
  const sinceMs = nowMs - replacedAtMs;
  const count = sinceMs < calmMs ? replacements : 0;
  const delayMs = count === 0 ? 0 : Math.min(longestDelayMs, firstDelayMs * 2 ** (count - 1));
  return { count, isDue: sinceMs >= delayMs, dueAtMs: replacedAtMs + delayMs };
}

/** Its part of the GPU, and with it the price, was cut for what it runs: something else is placed anew. */
const sharesGpu = (one: PlacedInstance) => one.gpuMemoryBytes > 0;

const idsOf = (instances: readonly PlacedInstance[]) => instances.map((instance) => instance.id);

/** Serving ones first, among them those with most to do, then the oldest: what goes has the least to wait for. */
function byWorthOfKeeping(a: PlacedInstance, b: PlacedInstance): number {
  const serving = Number(b.phase === "ready") - Number(a.phase === "ready");
  return serving || (b.load ?? 0) - (a.load ?? 0) || a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1);
}
