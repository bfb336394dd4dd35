// What a deployment's instances need next, decided from values alone: how many to place, which to send away.

import type { InstanceId } from "../../proto/ids.ts";
import type { DeploymentStatus, PlacedInstance } from "./deployment.ts";
import { isWanted } from "./lifecycle.ts";

export interface Plan {
  /** Instances to place. */
  readonly place: number;
  readonly tombstone: readonly InstanceId[];
}

export function planInstances(
  want: { readonly status: DeploymentStatus; readonly target: number },
  instances: readonly PlacedInstance[],
): Plan {
  const live = instances.filter((instance) => !instance.isTombstoned);
  if (!isWanted(want.status)) return { place: 0, tombstone: live.map((instance) => instance.id) };

  // Serving ones first, then the oldest: a copy that works is never the one that goes.
  const here = live.filter((instance) => !instance.isHostLost).sort(byServingThenAge);
  const keep = here.slice(0, want.target);
  const surplus = here.slice(want.target);
  // Copies on lost hosts may still be serving somebody there: they go once their replacements serve.
  const isReplaced = keep.length === want.target && keep.every((instance) => instance.phase === "ready");
  const stale = isReplaced ? live.filter((instance) => instance.isHostLost) : [];
  return { place: want.target - keep.length, tombstone: [...surplus, ...stale].map((instance) => instance.id) };
}

function byServingThenAge(a: PlacedInstance, b: PlacedInstance): number {
  const serving = Number(b.phase === "ready") - Number(a.phase === "ready");
  return serving || a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1);
}
