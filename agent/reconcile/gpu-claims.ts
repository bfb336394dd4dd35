// Owner of each GPU of this host. Pure. The control plane assigns no GPU twice; if it does (an older database, two control planes,
// a defect) the agent starts no second instance on it. INVARIANT: of two instances that may not share a GPU at most one is
// started, in one pass and over many.
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { InstanceId } from "../../proto/ids.ts";
import type { View } from "./facts.ts";
import { maySleep } from "./rest.ts";

interface GpuHolder {
  readonly id: InstanceId;
  readonly gpuUuid: string;
  /** Stopping: an instance that needs its GPU waits for that. */
  readonly isLeaving: boolean;
}

type Seen = Pick<View, "desired" | "observed" | "facts" | "unsettled">;

/** Returns another instance that has a GPU of this one; undefined if there is none. `begun`: started in this pass. */
export function gpuHolder(
  view: Seen,
  spec: InstanceSpec__Output,
  begun: ReadonlySet<InstanceId>,
): GpuHolder | undefined {
  if (spec.gpuUuids.length === 0) return undefined;
  const tombstones = new Set<string>(view.desired?.tombstones ?? []);
  const others = new Map((view.desired?.instances ?? []).map((one) => [one.instanceId as InstanceId, one]));
  const ids = new Set([...others.keys(), ...view.observed.keys(), ...(tombstones as Set<InstanceId>)]);
  const own = spec.instanceId as InstanceId;
  ids.delete(own);
  const found: GpuHolder[] = [];
  for (const id of ids) {
    const isLeaving = tombstones.has(id);
    const other = others.get(id);
    const comesBack = other !== undefined && !isLeaving && keepsIt(view, id, own);
    if (!(comesBack || hasItNow(view, id, begun)) || mayShare(spec, other, isLeaving)) continue;
    const held = new Set([...(view.observed.get(id)?.claimedGpus ?? []), ...(other?.gpuUuids ?? [])]);
    const gpuUuid = spec.gpuUuids.find((uuid) => held.has(uuid));
    if (gpuUuid !== undefined) found.push({ id, gpuUuid, isLeaving });
  }
  // Report the instance that stays as the reason.
  return found.find((one) => !one.isLeaving) ?? found[0];
}

function hasItNow(view: Seen, id: InstanceId, begun: ReadonlySet<InstanceId>): boolean {
  const seen = view.observed.get(id);
  const facts = view.facts.get(id);
  if ((seen && seen.state !== "exited") || facts?.busy?.kind === "start" || begun.has(id)) return true;
  // It may have been started since it was observed.
  return view.unsettled.has(id) && !facts?.failure;
}

/**
 * An instance that restarts keeps its GPUs, also while a newer generation replaces an older one and there is no container: it
 * must not lose them to a restart. If nothing else decides between two, the first by id has them; otherwise each would wait for
 * the other until both have failed.
 */
function keepsIt(view: Seen, id: InstanceId, own: InstanceId): boolean {
  if (view.facts.get(id)?.failure) return false;
  const [its, ours] = [claimOf(view, id), claimOf(view, own)];
  return its > 0 && (its > ours || (its === ours && id < own));
}

/** 2: it ran since this agent started; 1: its exited container is here; 0: it is not known to have been here. */
function claimOf(view: Seen, id: InstanceId): number {
  if (view.facts.get(id)?.life) return 2;
  return view.observed.has(id) ? 1 : 0;
}

/**
 * The control plane shares a GPU only among instances of one account, and then sends each its share; or in turn among instances
 * that sleep, whose turns rest.ts decides.
 */
function mayShare(spec: InstanceSpec__Output, other: InstanceSpec__Output | undefined, isLeaving: boolean): boolean {
  if (maySleep(spec) && maySleep(other)) return true;
  if (!hasPart(spec)) return false;
  return other ? hasPart(other) : isLeaving;
}

const hasPart = (spec: InstanceSpec__Output) => Number(spec.gpuMemoryBytes) > 0;
