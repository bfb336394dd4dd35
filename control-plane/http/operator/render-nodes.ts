import { plainWarning } from "../../fleet/dial.ts";
import type { HostOperation } from "../../fleet/host.ts";
import type { NodeInstance, NodeView } from "../../fleet/host-operations.ts";
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
  const users = usersOf(node.instances);
  return wireRecord(
    Node,
    { ...inventory, ...node, ...live, usageSpool: live?.spool },
    {
      node_id: node.id,
      name: node.hostname,
      state: stateOf(node),
      operation: operationOf(node.operation),
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
            deploy_id:
              users.get(gpu.uuid)?.[0]?.deployId ??
              live?.instances.find(({ gpuUuids }) => gpuUuids.includes(gpu.uuid))?.deployId ??
              null,
            deploy_name: users.get(gpu.uuid)?.[0]?.modelName ?? null,
            account: customerOf(users.get(gpu.uuid)),
            memory_used_bytes: byUuid.get(gpu.uuid)?.memoryUsedBytes ?? null,
            processes: processesOf(byUuid.get(gpu.uuid)),
          },
        ),
      ),
      instances: node.instances.map((one) => ({
        instance_id: one.id,
        deploy_id: one.deployId,
        deploy_name: one.modelName,
        kind: one.kind,
        account: { uid: one.account, email: one.email },
        formats: [...one.formats],
        ...instanceFigures(known.get(one.id), one),
      })),
      created_at: isoTime(node.createdAtMs),
    },
  );
}

function operationOf(operation: HostOperation | undefined) {
  if (!operation) return null;
  const { kind, note, beganAtMs, deadlineAtMs } = operation;
  const deadline = deadlineAtMs === null ? null : isoTime(deadlineAtMs);
  return { kind, note, began_at: isoTime(beganAtMs), deadline_at: deadline };
}

export function renderNodeDetail(node: NodeView): NodeDetail {
  return wireRecord(NodeDetail, node.inventory, renderNode(node));
}

/** Instances by GPU. */
function usersOf(instances: readonly NodeInstance[]): ReadonlyMap<string, readonly NodeInstance[]> {
  const users = new Map<string, NodeInstance[]>();
  for (const one of instances) for (const uuid of one.gpuUuids) users.set(uuid, [...(users.get(uuid) ?? []), one]);
  return users;
}

function customerOf(users: readonly NodeInstance[] = []) {
  const [first] = users;
  return first && users.every(({ account }) => account === first.account)
    ? { uid: first.account, email: first.email }
    : null;
}

const processesOf = (live: GpuLive | undefined) =>
  (live?.processes ?? []).map(({ pid, name, memoryBytes, instanceId }) => ({
    pid,
    name,
    memory_bytes: memoryBytes,
    instance_id: instanceId === "" ? null : instanceId,
  }));

/** A host counts the requests of all replicas; before its first report only this replica's are known. */
function instanceFigures(live: InstanceLive | undefined, placed: NodeInstance) {
  return {
    phase: live?.phase ?? "pending",
    in_flight: live?.inFlight ?? placed.inFlight,
    waiting: live?.waiting ?? 0,
    tokens_per_second: live?.tokensPerSecond ?? 0,
    restarts: live?.restarts ?? 0,
    memory_bytes: live?.memoryBytes ?? 0,
    cpu_ratio: live?.cpuRatio ?? null,
    kv_cache_ratio: live?.kvCacheRatio ?? null,
    gpu_uuids: [...(live?.gpuUuids ?? placed.gpuUuids)],
  };
}

/** Returns `ready` when its lease is valid and its data path proven, otherwise the obstacle. */
function stateOf(node: NodeView): string {
  if (node.state !== "live") return node.state;
  if (node.schedulable) return "ready";
  return node.condition.split(":", 1)[0] || "connecting";
}
