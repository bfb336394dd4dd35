// Who has which GPU of this host, from values alone. The control plane gives no GPU to two; an agent that is told otherwise
// (an older database, two control planes, a defect) starts nothing beside the one that has it. INVARIANT: of two instances that
// may not share a GPU at most one is begun, in one look and over many.
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { InstanceId } from "../../proto/ids.ts";
import type { View } from "./view.ts";

export interface GpuHolder {
  readonly id: InstanceId;
  readonly gpuUuid: string;
  /** Told to end: what wants its GPU waits for that. */
  readonly isLeaving: boolean;
}

type Seen = Pick<View, "desired" | "observed" | "facts" | "unsettled">;

/** Another instance that has a GPU of this one; undefined where there is none. `begun`: in this very look. */
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
  // Whoever stays is the reason that must be told.
  return found.find((one) => !one.isLeaving) ?? found[0];
}

function hasItNow(view: Seen, id: InstanceId, begun: ReadonlySet<InstanceId>): boolean {
  const seen = view.observed.get(id);
  const facts = view.facts.get(id);
  if ((seen && seen.state !== "exited") || facts?.busy?.kind === "start" || begun.has(id)) return true;
  // It may have been started since it was looked at.
  return view.unsettled.has(id) && !facts?.failure;
}

/**
 * What ended and is to come back keeps its GPUs meanwhile, also while a newer generation of it takes the place of an older one
 * and no container stands for it: whoever was first must not lose them to a restart. Of two the first by its id counts as
 * that where nothing else tells, or each would wait for the other until both have failed.
 */
function keepsIt(view: Seen, id: InstanceId, own: InstanceId): boolean {
  if (view.facts.get(id)?.failure) return false;
  const [its, ours] = [claimOf(view, id), claimOf(view, own)];
  return its > 0 && (its > ours || (its === ours && id < own));
}

/** 2: it ran in this agent's life; 1: what is left of it is here; 0: it was never here, as far as anybody knows. */
function claimOf(view: Seen, id: InstanceId): number {
  if (view.facts.get(id)?.life) return 2;
  return view.observed.has(id) ? 1 : 0;
}

/** The control plane shares a GPU among instances of one account alone, and then tells each of them its part. */
function mayShare(spec: InstanceSpec__Output, other: InstanceSpec__Output | undefined, isLeaving: boolean): boolean {
  if (!hasPart(spec)) return false;
  return other ? hasPart(other) : isLeaving;
}

const hasPart = (spec: InstanceSpec__Output) => Number(spec.gpuMemoryBytes) > 0;
