// Free GPUs of a host and their free memory: the smaller of the claimed and the reported value.
import type { GpuType } from "../../proto/gpu.ts";
import type { Gpu, GpuClaim, HostView } from "../fleet/host.ts";
import { isVirtual } from "./resources.ts";
import type { Want } from "./want.ts";

export interface FreeGpu {
  readonly gpu: Gpu;
  readonly freeBytes: number;
  /** The account's claim on the shared GPU. */
  readonly claim: GpuClaim | undefined;
}

type Held = Pick<HostView, "inventory" | "claims" | "gpuMemoryUsed">;

/** Share used by drivers and displays; above it an unknown process uses the GPU. */
const idleShare = 0.25;

/** Unclaimed, healthy, and unused by unknown processes. */
export function freeGpus(host: Held, type: GpuType): readonly FreeGpu[] {
  const claimed = new Set(host.claims.map((claim) => claim.gpuUuid));
  return host.inventory.gpus.flatMap((gpu) => {
    if (gpu.type !== type || !gpu.isHealthy || claimed.has(gpu.uuid)) return [];
    // An instance with the whole GPU from before the split would share it with users of its slices.
    if (gpu.parentUuid !== undefined && claimed.has(gpu.parentUuid)) return [];
    const used = host.gpuMemoryUsed.get(gpu.uuid) ?? 0;
    if (used > gpu.memoryBytes * idleShare) return [];
    return [{ gpu, freeBytes: gpu.memoryBytes - used, claim: undefined }];
  });
}

/** GPUs with free capacity beside other instances of the account. */
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

/** True when the GPU is usable for this request: a slice cannot be rented out or combined with others. */
export const isUsable = (want: Pick<Want, "engine" | "gpusPerInstance">, gpu: Gpu) =>
  !isSlice(gpu) || (want.engine !== "container" && want.gpusPerInstance === 1);

/** A MIG slice: like a small GPU of its own, with isolated memory and faults. */
export const isSlice = (gpu: Pick<Gpu, "migProfile" | "uuid">) => gpu.migProfile !== "" || gpu.uuid.startsWith("MIG-");
export const byIndex = (a: Gpu, b: Gpu) => a.index - b.index || (a.uuid < b.uuid ? -1 : 1);
