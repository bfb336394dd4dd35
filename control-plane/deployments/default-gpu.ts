import type { GpuType } from "../../proto/gpu.ts";
import type { HostView } from "../fleet/host.ts";

/** Smallest first. */
const byPrice: readonly GpuType[] = [
  "other",
  "L4-24GB",
  "L40S-48GB",
  "RTXPRO6000-96GB",
  "A100-80GB",
  "H100-80GB",
  "H200-141GB",
  "B200-180GB",
  "B300-270GB",
];

/** Default GPU type: the smallest with a free GPU, else the smallest that exists, else `other`. */
export function defaultGpu(hosts: readonly HostView[]): GpuType {
  const existing = new Set<GpuType>();
  const free = new Set<GpuType>();
  for (const host of hosts) {
    if (host.state !== "live" || !host.schedulable) continue;
    const claimed = new Set(host.claims.map(({ gpuUuid }) => gpuUuid));
    for (const gpu of host.inventory.gpus) {
      existing.add(gpu.type);
      if (gpu.isHealthy && !claimed.has(gpu.uuid)) free.add(gpu.type);
    }
  }
  return byPrice.find((type) => free.has(type)) ?? byPrice.find((type) => existing.has(type)) ?? "other";
}
