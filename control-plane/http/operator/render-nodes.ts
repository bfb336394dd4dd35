import { plainWarning } from "../../fleet/dial.ts";
import type { NodeView } from "../../fleet/host-operations.ts";
import type { GpuLive, InstanceLive } from "../../fleet/live.ts";
import { wireRecord } from "../core/wire-record.ts";
import { isoTime } from "../deployments/render-deployment.ts";
import { Node, NodeDetail } from "./node-schemas.ts";

export function renderNode(node: NodeView): Node {
  const { inventory, figures } = node;
  const live = figures?.live;
  const claimed = new Set(node.claims.map((claim) => claim.gpuUuid));
  const byUuid = new Map(live?.gpus.map((gpu) => [gpu.uuid, gpu]));
  const known = new Map(live?.instances.map((one) => [one.instanceId, one]));
  return wireRecord(
    Node,
    { ...inventory, ...node, ...live, usageSpool: live?.spool },
    {
      node_id: node.id,
      name: node.hostname,
      state: stateOf(node),
      silent_seconds: Math.round(node.silentMs) / 1000,
      epoch: Number(node.nodeEpoch),
      warnings: [plainWarning(node.advertise), ...inventory.warnings].filter((warning) => warning !== undefined),
      figures_age_seconds: figures ? Math.round(figures.ageMs) / 1000 : null,
      gpu_sample_age_seconds:
        live && live.gpus.length > 0 ? (live.gpuSampleAgeMs + (figures?.ageMs ?? 0)) / 1000 : null,
      gpus: inventory.gpus.map((gpu) =>
        wireRecord(
          Node.properties.gpus.items,
          { ...byUuid.get(gpu.uuid), ...gpu },
          {
            cordoned_at: gpu.cordonedAtMs === undefined ? null : isoTime(gpu.cordonedAtMs),
            is_claimed: claimed.has(gpu.uuid),
            deploy_id: live?.instances.find(({ gpuUuids }) => gpuUuids.includes(gpu.uuid))?.deployId ?? null,
            memory_used_bytes: byUuid.get(gpu.uuid)?.memoryUsedBytes ?? null,
            processes: processesOf(byUuid.get(gpu.uuid)),
          },
        ),
      ),
      instances: node.instances.map(({ id, deployId, inFlight, formats }) => ({
        instance_id: id,
        deploy_id: deployId,
        formats: [...formats],
        ...instanceFigures(known.get(id), inFlight),
      })),
      created_at: isoTime(node.createdAtMs),
    },
  );
}

export function renderNodeDetail(node: NodeView): NodeDetail {
  return wireRecord(NodeDetail, node.inventory, renderNode(node));
}

const processesOf = (live: GpuLive | undefined) =>
  (live?.processes ?? []).map(({ pid, name, memoryBytes, instanceId }) => ({
    pid,
    name,
    memory_bytes: memoryBytes,
    instance_id: instanceId === "" ? null : instanceId,
  }));

/** A host counts the requests of all replicas; before its first report only this replica's are known. */
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

/** Returns `ready` when its lease is valid and its data path proven, otherwise the obstacle. */
function stateOf(node: NodeView): string {
  if (node.state !== "live") return node.state;
  if (node.schedulable) return "ready";
  return node.condition.split(":", 1)[0] || "connecting";
}
