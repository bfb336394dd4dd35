import { isProcessorSlot } from "../../proto/gpu-vendors.ts";
import type { Inventory } from "../fleet/host.ts";

export interface Resources {
  readonly cpus: number;
  readonly memoryBytes: number;
}

const mib = 1024 * 1024;

/**
 * Resources of the host granted to an instance. A GPU of no maker is a share of its memory; beside
 * real GPUs an instance gets the same share of the host as of the GPUs. `gpuShare`: of each of its GPUs.
 */
export function resourcesOf(gpuUuids: readonly string[], inventory: Inventory, gpuShare = 1): Resources {
  if (gpuUuids.length === 0) return { cpus: 0, memoryBytes: 0 };
  const own = inventory.gpus.filter((gpu) => gpuUuids.includes(gpu.uuid));
  const share = (own.length * gpuShare) / Math.max(1, inventory.gpus.length);
  const areVirtual = own.every((gpu) => isProcessorSlot(gpu));
  return {
    // At least one whole core: a model server on half a core stalls.
    cpus: Math.max(1, Math.floor(inventory.cpuCores * share * 100) / 100),
    memoryBytes: areVirtual
      ? own.reduce((sum, gpu) => sum + gpu.memoryBytes, 0)
      : Math.floor(inventory.memoryBytes * share * 0.9),
  };
}

/** Expected memory of one instance from the size of its weights; 0: unknown. */
export function expectedMemoryBytes(weightsBytes: number): number {
  // The runtime fits its KV cache into the rest, so only a small part of it is required.
  return weightsBytes > 0 ? Math.ceil(weightsBytes * 1.1) + 256 * mib : 0;
}
