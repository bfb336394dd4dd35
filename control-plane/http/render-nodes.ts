import { isoTime } from "./render-deployment.ts";
import type { Nodes } from "./schemas/models.ts";
import type { NodeView } from "./verbs.ts";

export function renderNode(node: NodeView): Nodes["nodes"][number] {
  const claimed = new Set(node.claims.map((claim) => claim.gpuUuid));
  return {
    node_id: node.id,
    name: node.hostname,
    state: stateOf(node),
    condition: node.condition,
    advertise: node.advertise,
    agent_version: node.agentVersion,
    cpu_cores: node.inventory.cpuCores,
    memory_bytes: node.inventory.memoryBytes,
    drivers: [...node.inventory.drivers],
    gpus: node.inventory.gpus.map((gpu) => ({
      uuid: gpu.uuid,
      type: gpu.type,
      name: gpu.name,
      memory_bytes: gpu.memoryBytes,
      is_healthy: gpu.isHealthy,
      is_claimed: claimed.has(gpu.uuid),
    })),
    instances: node.instances.map(({ id, deployId, inFlight }) => ({
      instance_id: id,
      deploy_id: deployId,
      in_flight: inFlight,
    })),
    created_at: isoTime(node.createdAtMs),
  };
}

/** `ready`: heard within its lease, its data path proven. Otherwise what stands in the way. */
function stateOf(node: NodeView): string {
  if (node.state !== "live") return node.state;
  if (node.schedulable) return "ready";
  return node.condition.split(":", 1)[0] || "connecting";
}
