// Which GPUs of a host are free, and how much of them: the smaller of what was claimed and what was reported.
import type { GpuType } from "../../proto/gpu.ts";
import type { Gpu, GpuClaim, HostView } from "../fleet/host.ts";
import { isVirtual } from "./resources.ts";
import type { Want } from "./want.ts";

export interface FreeGpu {
  readonly gpu: Gpu;
  readonly freeBytes: number;
  /** Of the account it is shared with already. */
  readonly claim: GpuClaim | undefined;
}

type Held = Pick<HostView, "inventory" | "claims" | "gpuMemoryUsed">;

/** What drivers and displays hold for themselves; more, and somebody unknown works there. */
const idleShare = 0.25;

/** Unclaimed, sound, and nobody else's. */
export function freeGpus(host: Held, type: GpuType): readonly FreeGpu[] {
  const claimed = new Set(host.claims.map((claim) => claim.gpuUuid));
  return host.inventory.gpus.flatMap((gpu) => {
    if (gpu.type !== type || !gpu.isHealthy || claimed.has(gpu.uuid)) return [];
    // Whoever was given the whole GPU before it was split would meet others on its slices.
    if (gpu.parentUuid !== undefined && claimed.has(gpu.parentUuid)) return [];
    const used = host.gpuMemoryUsed.get(gpu.uuid) ?? 0;
    if (used > gpu.memoryBytes * idleShare) return [];
    return [{ gpu, freeBytes: gpu.memoryBytes - used, claim: undefined }];
  });
}

/** GPUs that others of the account leave room on. */
export function sharedGpus(host: Held, { gpu: type, sharesWith }: Want): readonly FreeGpu[] {
  if (sharesWith === undefined) return [];
  return host.claims.flatMap((claim) => {
    if (claim.account !== sharesWith || claim.memoryBytes === undefined) return [];
    const gpu = host.inventory.gpus.find((one) => one.uuid === claim.gpuUuid);
    if (gpu?.type !== type || !gpu.isHealthy || isVirtual(gpu, host.inventory)) return [];
    if (host.claims.some(({ gpuUuid }) => gpuUuid === gpu.parentUuid)) return [];
    const used = Math.max(claim.memoryBytes, host.gpuMemoryUsed.get(gpu.uuid) ?? 0);
    return used < gpu.memoryBytes ? [{ gpu, freeBytes: gpu.memoryBytes - used, claim }] : [];
  });
}

/** What may be used for this want at all: a slice of a GPU is nothing to rent out, and cannot work with others as one. */
export const isUsable = (want: Pick<Want, "engine" | "gpusPerInstance">, gpu: Gpu) =>
  !isSlice(gpu) || (want.engine !== "container" && want.gpusPerInstance === 1);

/** Of a GPU in MIG mode: as good as a small GPU of its own, memory and faults apart from those beside it. */
export const isSlice = (gpu: Pick<Gpu, "migProfile" | "uuid">) => gpu.migProfile !== "" || gpu.uuid.startsWith("MIG-");
export const byIndex = (a: Gpu, b: Gpu) => a.index - b.index || (a.uuid < b.uuid ? -1 : 1);
