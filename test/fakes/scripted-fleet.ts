// Hosts with GPUs, customers, faults and operations as the API lists them: more than a test machine can run.
import type { Responses } from "../../proto/gen/responses.ts";
import { soundNode } from "./sound-node.ts";

type Node = Responses["GET /v1/admin/nodes"]["nodes"][number];
type Gpu = Node["gpus"][number];

const types = ["H100-80GB", "B200-180GB", "L4-24GB"] as const;
export const scriptedCustomers = 12;
const gib = 1024 ** 3;
const at = "2026-01-01T00:00:00.000Z";

/** Every 20th GPU is cordoned after a fault, every third is free. Host 3 is cordoned, host 4 drained, host 5 unreachable. */
export function scriptedFleet(hosts: number, gpusPerHost: number): { readonly nodes: readonly Node[] } {
  return { nodes: Array.from({ length: hosts }, (_, host) => nodeOf(host, gpusPerHost)) };
}

function nodeOf(host: number, gpusPerHost: number): Node {
  const gpus = Array.from({ length: gpusPerHost }, (_, index) => gpuOf(host, index, host * gpusPerHost + index));
  const operation = host === 3 ? "cordon" : host === 4 ? "drain" : undefined;
  return {
    ...soundNode,
    node_id: `n-${host}`,
    name: `gpu-${String(host).padStart(3, "0")}`,
    pool: host % 4 === 0 ? "lab" : "prod",
    state: host === 5 ? "unreachable" : (operation && (operation === "drain" ? "draining" : "cordoned")) || "ready",
    condition: operation ? `${operation}: taken out of use by an operator` : "",
    operation: operation
      ? { kind: operation, note: "new fans", began_at: at, deadline_at: operation === "drain" ? at : null }
      : null,
    usage_spool: null,
    gpus,
    instances: gpus.flatMap((gpu) =>
      gpu.deploy_id === null || gpu.account === null
        ? []
        : [
            {
              instance_id: `i-${gpu.uuid}`,
              deploy_id: gpu.deploy_id,
              deploy_name: gpu.deploy_name ?? "",
              kind: "model",
              account: gpu.account,
              formats: [],
              phase: "ready",
              in_flight: 2,
              waiting: 1,
              tokens_per_second: 100,
              restarts: 0,
              memory_bytes: 0,
              cpu_ratio: null,
              kv_cache_ratio: null,
              gpu_uuids: [gpu.uuid],
            },
          ],
    ),
  };
}

function gpuOf(host: number, index: number, n: number): Gpu {
  const isFaulty = n % 20 === 19;
  const isClaimed = n % 3 !== 0;
  // The first customers have the most.
  const customer = Math.floor(scriptedCustomers * ((n % 97) / 97) ** 2);
  return {
    uuid: `GPU-${host}-${index}`,
    index,
    type: types[host % types.length] ?? types[0],
    name: "scripted",
    memory_bytes: 80 * gib,
    mig_profile: "",
    is_healthy: !isFaulty,
    unhealthy_reason: isFaulty ? "Xid 79" : "",
    cordoned_at: isFaulty ? at : null,
    is_claimed: isClaimed,
    deploy_id: isClaimed ? `d-${customer}` : null,
    deploy_name: isClaimed ? `customer-${customer}/model` : null,
    account: isClaimed ? { uid: `u:${customer}`, email: `customer-${customer}@example.com` } : null,
    utilization_ratio: isClaimed ? (n % 101) / 100 : 0,
    memory_used_bytes: isClaimed ? (n % 80) * gib : 0,
    temperature_celsius: 60,
    power_watts: 300,
    power_limit_watts: 700,
    processes: [],
  };
}
