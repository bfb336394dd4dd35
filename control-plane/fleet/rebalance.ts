// Proposes moves that free as many GPUs of one type on one host as possible. Pure, and only a proposal: small models spread
// over hosts leave no host for a large one.
import type { GpuType } from "../../proto/gpu.ts";
import type { AccountId, DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import { gpuTypesOn, type HostView } from "./host.ts";

export interface PlacedOn {
  readonly id: InstanceId;
  readonly deployId: DeploymentId;
  readonly modelName: string;
  readonly account: AccountId;
  readonly hostId: HostId;
  readonly gpuUuids: readonly string[];
  /** False: bound to its host's disk. */
  readonly isMovable: boolean;
}

export interface Move {
  readonly instance: InstanceId;
  readonly deployId: DeploymentId;
  readonly modelName: string;
  readonly from: HostId;
  readonly to: HostId;
  readonly gpus: number;
  /** It starts there before it stops here, so service has no gap. */
  readonly gapSeconds: 0;
}

export interface Proposal {
  readonly gpu: GpuType;
  readonly host: HostId;
  /** Maximum free GPUs on one host: now, and after the moves. */
  readonly largestNow: number;
  readonly largestAfter: number;
  /** In this order. */
  readonly moves: readonly Move[];
}

/** Returns the largest gain with the fewest moves; undefined when no moves gain anything. */
export function proposeRebalance(hosts: readonly HostView[], placed: readonly PlacedOn[]): Proposal | undefined {
  const usable = hosts.filter((host) => host.state === "live" && host.schedulable);
  const types = [...gpuTypesOn(usable)].sort();
  let best: Proposal | undefined;
  for (const gpu of types) {
    const free = new Map(usable.map((host) => [host.id, freeOf(host, gpu).length]));
    const largestNow = Math.max(0, ...free.values());
    for (const host of usable) {
      const found = emptied(host, gpu, usable, free, placed, largestNow);
      if (found && (!best || gain(found) > gain(best) || isShorter(found, best))) best = found;
    }
  }
  return best;
}

const gain = (one: Proposal) => one.largestAfter - one.largestNow;
const isShorter = (one: Proposal, other: Proposal) =>
  gain(one) === gain(other) && one.moves.length < other.moves.length;

function freeOf(host: HostView, type: GpuType) {
  const claimed = new Set(host.claims.map(({ gpuUuid }) => gpuUuid));
  return host.inventory.gpus.filter((gpu) => gpu.type === type && gpu.isHealthy && !claimed.has(gpu.uuid));
}

/** Small instances first: they are the easiest to place. */
function emptied(
  host: HostView,
  gpu: GpuType,
  hosts: readonly HostView[],
  freeNow: ReadonlyMap<HostId, number>,
  placed: readonly PlacedOn[],
  largestNow: number,
): Proposal | undefined {
  const own = new Set(host.inventory.gpus.filter(({ type }) => type === gpu).map(({ uuid }) => uuid));
  const here = placed
    .filter((one) => one.hostId === host.id && one.isMovable && one.gpuUuids.length > 0)
    .filter((one) => one.gpuUuids.every((uuid) => own.has(uuid)))
    .sort((a, b) => a.gpuUuids.length - b.gpuUuids.length || (a.id < b.id ? -1 : 1));
  const free = new Map(freeNow);
  const moves: Move[] = [];
  for (const one of here) {
    const need = one.gpuUuids.length;
    // Use the fullest host that fits, to keep other hosts free.
    const to = hosts
      .filter(({ id }) => id !== host.id && (free.get(id) ?? 0) >= need)
      .sort((a, b) => (free.get(a.id) ?? 0) - (free.get(b.id) ?? 0) || (a.id < b.id ? -1 : 1))[0];
    if (!to) continue;
    free.set(to.id, (free.get(to.id) ?? 0) - need);
    free.set(host.id, (free.get(host.id) ?? 0) + need);
    const { id, deployId, modelName } = one;
    moves.push({ instance: id, deployId, modelName, from: host.id, to: to.id, gpus: need, gapSeconds: 0 });
  }
  const largestAfter = free.get(host.id) ?? 0;
  return largestAfter > largestNow ? { gpu, host: host.id, largestNow, largestAfter, moves } : undefined;
}
