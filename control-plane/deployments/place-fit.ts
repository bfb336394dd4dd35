// Chooses the part of a host that an instance gets: the smallest GPUs that hold it, or capacity beside others of its
// account.
import type { Gpu, HostView } from "../fleet/host.ts";
import { byIndex, type FreeGpu, freeGpus, isUsable, sharedGpus } from "./place-gpus.ts";
import { isVirtual, resourcesOf } from "./resources.ts";
import type { Placed, Want } from "./want.ts";

export interface Fit extends Placed {
  /** It shares a GPU that its account already uses. */
  readonly isJoining: boolean;
  /** Free afterwards: GPUs of the type, or memory of the shared GPU. */
  readonly left: number;
}

/** Undefined when it does not fit. The host has passed the filter. */
export function fitOn(want: Want, host: HostView): Fit | undefined {
  if (want.gpusPerInstance === 0) return withoutGpus(want, host);
  const joined = mayShare(want) ? smallest(sharedGpus(host, want), want.memoryBytes) : undefined;
  if (joined) return granted(want, host, [joined], joined.freeBytes - want.memoryBytes);
  if (isReserved(want)) return undefined;
  const free = freeGpus(host, want.gpu);
  const taken = choose(want, host, free);
  return taken && granted(want, host, taken, free.length - taken.length);
}

/** A GPU is shared only when memory has a fixed upper bound. */
export const mayShare = (want: Want) =>
  want.sharesWith !== undefined &&
  want.gpusPerInstance === 1 &&
  want.memoryBytes > 0 &&
  (want.engine === "stoker" || want.engine === "vllm" || want.engine === "sglang");

/** Free GPUs are reserved for other accounts. */
export const isReserved = (want: Want) => want.maxNewGpus !== undefined && want.gpusPerInstance > want.maxNewGpus;

function withoutGpus(want: Want, host: HostView): Fit | undefined {
  const grantBytes = want.engine === "agent_instance" ? want.memoryBytes : 0;
  const left = host.inventory.memoryBytes - host.grantedMemoryBytes - grantBytes;
  if (grantBytes > 0 && left < 0) return undefined;
  const none = { gpus: [], gpuMemoryBytes: 0, gpuShare: 1, isJoining: false };
  return { host: host.id, revision: host.revision, ...none, grantBytes, left: grantBytes > 0 ? left : 0 };
}

/** Returns exclusive GPUs for an instance; undefined when the free ones cannot hold it. */
export function choose(want: Want, host: HostView, free: readonly FreeGpu[]): readonly FreeGpu[] | undefined {
  const count = want.gpusPerInstance;
  const usable = free.filter(({ gpu }) => isUsable(want, gpu)).sort(bySize);
  if (usable.length < count) return undefined;
  // Shares of host memory add up; a model split over real GPUs needs its part on each, all of one kind.
  if (usable.every(({ gpu }) => isVirtual(gpu, host.inventory))) {
    for (let start = 0; start + count <= usable.length; start++) {
      const window = usable.slice(start, start + count);
      if (memoryOf(window) >= want.memoryBytes) return window;
    }
    return undefined;
  }
  const each = Math.ceil(want.memoryBytes / count);
  const fitting = usable.filter(({ freeBytes }) => freeBytes >= each);
  if (count === 1) return fitting.slice(0, 1).length === 1 ? fitting.slice(0, 1) : undefined;
  const kinds = [...Map.groupBy(fitting, ({ gpu }) => (gpu.type === "other" ? gpu.name : "")).values()];
  return kinds.find((kind) => kind.length >= count)?.slice(0, count);
}

function granted(want: Want, host: HostView, taken: readonly FreeGpu[], left: number): Fit | undefined {
  const gpus = taken.map(({ gpu }) => gpu).sort(byIndex);
  const only = gpus[0] as Gpu;
  const isShared = mayShare(want) && !isVirtual(only, host.inventory);
  const gpuShare = isShared ? Math.min(1, want.memoryBytes / only.memoryBytes) : 1;
  const uuids = gpus.map((gpu) => gpu.uuid);
  const { memoryBytes: grantBytes } = resourcesOf(uuids, host.inventory, gpuShare);
  if (lacksMemory(host, grantBytes)) return undefined;
  return {
    ...{ host: host.id, revision: host.revision, gpus, gpuShare, grantBytes, left },
    gpuMemoryBytes: isShared ? want.memoryBytes : 0,
    isJoining: taken[0]?.claim !== undefined,
  };
}

/** An operator who offers more shares than there is memory has accepted overcommitment. */
export function lacksMemory(host: HostView, grantBytes: number): boolean {
  const { gpus, memoryBytes } = host.inventory;
  const offered = gpus.reduce((sum, gpu) => sum + (isVirtual(gpu, host.inventory) ? gpu.memoryBytes : 0), 0);
  return offered <= memoryBytes && host.grantedMemoryBytes + grantBytes > memoryBytes;
}

const smallest = (gpus: readonly FreeGpu[], bytes: number) =>
  gpus.filter(({ freeBytes }) => freeBytes >= bytes).sort(bySize)[0];
const bySize = (a: FreeGpu, b: FreeGpu) => a.freeBytes - b.freeBytes || byIndex(a.gpu, b.gpu);
const memoryOf = (gpus: readonly FreeGpu[]) => gpus.reduce((sum, one) => sum + one.freeBytes, 0);
