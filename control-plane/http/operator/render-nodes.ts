import type { NodeView } from "../../fleet/host-operations.ts";
import type { GpuLive, InstanceLive } from "../../fleet/live.ts";
import { plainWarning } from "../../fleet/plain-warning.ts";
import { isoTime } from "../deployments/render-deployment.ts";
import type { Node, NodeDetail } from "./node-schemas.ts";

export function renderNode(node: NodeView): Node {
  const { inventory, figures } = node;
  const live = figures?.live;
  const claimed = new Set(node.claims.map((claim) => claim.gpuUuid));
  const byUuid = new Map(live?.gpus.map((gpu) => [gpu.uuid, gpu]));
  const known = new Map(live?.instances.map((one) => [one.instanceId, one]));
  const { load } = live ?? {};
  return {
    node_id: node.id,
    name: node.hostname,
    pool: node.pool,
    state: stateOf(node),
    condition: node.condition,
    silent_seconds: Math.round(node.silentMs) / 1000,
    advertise: node.advertise,
    agent_version: node.agentVersion,
    epoch: Number(node.nodeEpoch),
    os: inventory.os,
    cpu_model: inventory.cpuModel,
    cpu_cores: inventory.cpuCores,
    memory_bytes: inventory.memoryBytes,
    drivers: [...inventory.drivers],
    docker_version: inventory.dockerVersion,
    has_nvidia_runtime: inventory.hasNvidiaRuntime,
    nvidia_driver_version: inventory.nvidiaDriverVersion,
    cuda_version: inventory.cudaVersion,
    warnings: [plainWarning(node.advertise), ...inventory.warnings].filter((warning) => warning !== undefined),
    figures_age_seconds: figures ? Math.round(figures.ageMs) / 1000 : null,
    gpu_sample_age_seconds: live && live.gpus.length > 0 ? (live.gpuSampleAgeMs + (figures?.ageMs ?? 0)) / 1000 : null,
    clock_skew_seconds: live?.clockSkewSeconds ?? null,
    usage_spool: live
      ? { records: live.spool.records, bytes: live.spool.bytes, oldest_age_seconds: live.spool.oldestAgeSeconds }
      : null,
    load: load
      ? {
          cpu_ratio: load.cpuRatio,
          memory_used_bytes: load.memoryUsedBytes,
          memory_total_bytes: load.memoryTotalBytes,
          disk_free_bytes: load.diskFreeBytes,
          disk_total_bytes: load.diskTotalBytes,
        }
      : null,
    gpus: inventory.gpus.map((gpu) => ({
      uuid: gpu.uuid,
      index: gpu.index,
      type: gpu.type,
      name: gpu.name,
      memory_bytes: gpu.memoryBytes,
      mig_profile: gpu.migProfile,
      is_healthy: gpu.isHealthy,
      unhealthy_reason: gpu.unhealthyReason,
      cordoned_at: gpu.cordonedAtMs === undefined ? null : isoTime(gpu.cordonedAtMs),
      is_claimed: claimed.has(gpu.uuid),
      deploy_id: live?.instances.find(({ gpuUuids }) => gpuUuids.includes(gpu.uuid))?.deployId ?? null,
      ...gpuFigures(byUuid.get(gpu.uuid)),
    })),
    instances: node.instances.map(({ id, deployId, inFlight }) => ({
      instance_id: id,
      deploy_id: deployId,
      ...instanceFigures(known.get(id), inFlight),
    })),
    created_at: isoTime(node.createdAtMs),
  };
}

export function renderNodeDetail(node: NodeView): NodeDetail {
  const { inventory } = node;
  return {
    ...renderNode(node),
    cpu_physical_cores: inventory.cpuPhysicalCores,
    metrics_address: inventory.metricsAddress,
    disks: inventory.disks.map(({ mount, type, totalBytes, freeBytes }) => ({
      mount,
      type,
      total_bytes: totalBytes,
      free_bytes: freeBytes,
    })),
    networks: inventory.networks.map(({ name, addresses, speedBitsPerSecond }) => ({
      name,
      addresses: [...addresses],
      speed_bits_per_second: speedBitsPerSecond,
    })),
  };
}

function gpuFigures(live: GpuLive | undefined) {
  return {
    utilization_ratio: live?.utilizationRatio ?? null,
    memory_used_bytes: live?.memoryUsedBytes ?? null,
    temperature_celsius: live?.temperatureCelsius ?? null,
    power_watts: live?.powerWatts ?? null,
    power_limit_watts: live?.powerLimitWatts ?? null,
    processes: (live?.processes ?? []).map(({ pid, name, memoryBytes, instanceId }) => ({
      pid,
      name,
      memory_bytes: memoryBytes,
      instance_id: instanceId === "" ? null : instanceId,
    })),
  };
}

/** The host counts the requests of every replica; before its first report this replica's own are all that is known. */
function instanceFigures(live: InstanceLive | undefined, ownInFlight: number) {
  return {
    phase: live?.phase ?? "pending",
    in_flight: live?.inFlight ?? ownInFlight,
    waiting: live?.waiting ?? 0,
    tokens_per_second: live?.tokensPerSecond ?? 0,
    restarts: live?.restarts ?? 0,
    memory_bytes: live?.memoryBytes ?? 0,
    cpu_ratio: live?.cpuRatio ?? null,
    kv_cache_ratio: live?.kvCacheRatio ?? null,
    gpu_uuids: [...(live?.gpuUuids ?? [])],
  };
}

/** `ready`: heard within its lease, its data path proven. Otherwise what stands in the way. */
function stateOf(node: NodeView): string {
  if (node.state !== "live") return node.state;
  if (node.schedulable) return "ready";
  return node.condition.split(":", 1)[0] || "connecting";
}
