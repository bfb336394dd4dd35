// Simulated hosts with eight H100 each: records, reports and rows.

import type { HostView, Inventory } from "../control-plane/fleet/host.ts";
import type { HostLive } from "../control-plane/fleet/live.ts";
import type { OpenDatabase } from "../control-plane/store/core/database.ts";
import type { HostId } from "../proto/ids.ts";

const gib = 1024 ** 3;
const gpusPerHost = 8;

export const hostIds = (count: number) =>
  Array.from({ length: count }, (_, n) => `host-${String(n).padStart(5, "0")}` as HostId);

function inventoryOf(id: HostId): Inventory {
  return {
    ...{ os: "linux", cpuModel: "bench", cpuCores: 128, cpuPhysicalCores: 64, memoryBytes: 2048 * gib },
    ...{ diskTotalBytes: 8192 * gib, diskFreeBytes: 4096 * gib, drivers: ["docker"], dockerVersion: "29" },
    ...{ nvidiaDriverVersion: "580", cudaVersion: "13", hasNvidiaRuntime: true, disks: [], networks: [] },
    ...{ warnings: [], metricsAddress: "" },
    gpus: Array.from({ length: gpusPerHost }, (_, index) => ({
      ...{ uuid: `GPU-${id}-${index}`, index, type: "H100-80GB" as const, name: "H100", memoryBytes: 80 * gib },
      ...{ isHealthy: true, unhealthyReason: "", faultId: "", migProfile: "" },
    })),
  };
}

export function hostView(id: HostId): HostView {
  return {
    ...{ id, hostname: id, advertise: "http://127.0.0.1:9", inventory: inventoryOf(id), nodeEpoch: 1n },
    ...{ generation: 0n, revision: 0n, schedulable: true, condition: "", agentVersion: "bench", claims: [] },
    ...{ grantedMemoryBytes: 0, pool: "", keptWeights: new Set<string>(), gpuMemoryUsed: new Map<string, number>() },
    ...{ createdAtMs: 0, state: "live" as const, silentMs: 0 },
  };
}

/** Report of a host with eight GPUs. */
export function liveOf(id: HostId): HostLive {
  return {
    ...{ gpuSampleAgeMs: 400, spool: { records: 3, bytes: 900, oldestAgeSeconds: 1 }, clockSkewSeconds: 0.001 },
    load: {
      ...{ cpuRatio: 0.3, memoryUsedBytes: 400 * gib, memoryTotalBytes: 2048 * gib },
      ...{ diskFreeBytes: 4096 * gib, diskTotalBytes: 8192 * gib },
    },
    gpus: Array.from({ length: gpusPerHost }, (_, index) => ({
      ...{ uuid: `GPU-${id}-${index}`, utilizationRatio: 0.5, memoryUsedBytes: gib, memoryTotalBytes: 80 * gib },
      ...{ temperatureCelsius: 60, powerWatts: 500, powerLimitWatts: 700, smClockHertz: 1.9e9, processes: [] },
    })),
    instances: [],
  };
}

export async function insertHosts(db: OpenDatabase["db"], ids: readonly HostId[]): Promise<void> {
  for (let at = 0; at < ids.length; at += 500)
    await db
      .insertInto("host")
      .values(
        ids.slice(at, at + 500).map((id) => ({
          ...{ hostId: id, hostname: id, advertise: "http://127.0.0.1:9", agentVersion: "bench", schedulable: true },
          ...{ inventory: JSON.stringify(inventoryOf(id)), nodeEpoch: 1n, ticketKey: Buffer.alloc(32) },
          seenAt: new Date(),
        })),
      )
      .execute();
}
