import type { FoundGpu } from "./gpu.ts";

export interface GpuOverrides {
  /** Number of GPUs that a host without NVIDIA GPUs offers. */
  readonly gpus?: number | undefined;
  /** Memory of each of them. */
  readonly gpuMemoryBytes?: number | undefined;
}

/** The rest is for the system, PostgreSQL and ourselves. */
const shareOfMemory = 0.75;
/** Enough for a small language model with its context; smaller pieces would fit nothing. */
const minBytes = 820 * 1024 * 1024;
const most = 16;

/** GPUs of type `other` made of processor and memory: two per core as far as memory goes. */
export function virtualGpus(
  host: { readonly hostname: string; readonly cpuCores: number; readonly memoryBytes: number },
  overrides: GpuOverrides,
): FoundGpu[] {
  const bytes = Math.floor(host.memoryBytes * shareOfMemory);
  const fitting = Math.floor(bytes / (overrides.gpuMemoryBytes ?? minBytes));
  const count = overrides.gpus ?? Math.max(1, Math.min(2 * host.cpuCores, fitting, most));
  const memoryBytes = overrides.gpuMemoryBytes ?? Math.floor(bytes / Math.max(1, count));
  return Array.from({ length: count }, (_, index) => ({
    uuid: `cpu-${host.hostname}-${index}`,
    index,
    type: "other",
    name: "share of processor and memory",
    memoryBytes,
    healthy: true,
    unhealthyReason: "",
    faultId: "",
    pciBusId: "",
    migProfile: "",
    parentUuid: "",
    computeCapability: "",
    powerLimitWatts: 0,
    eccUncorrected: 0,
  }));
}
