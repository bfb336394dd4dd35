import type { Responses } from "../proto/gen/responses.ts";
import { isProcessorSlot } from "../proto/gpu-vendors.ts";
import { counted } from "./counted.ts";

// Text of hosts, for `stoker node`, `stoker top` and `stoker inspect`.

export type NodeGpu = Node["gpus"][number];

export type NodeInstance = Node["instances"][number];

export type Load = NonNullable<Node["load"]>;

export type Spool = NonNullable<Node["usage_spool"]>;

export type Node = Responses["GET /v1/admin/nodes/{id}"];

const gib = 1024 ** 3;

export const gibText = (bytes: number): string => (bytes / gib).toFixed(bytes < 10 * gib ? 1 : 0);
export const percent = (ratio: number | null): string => (ratio === null ? "-" : `${Math.round(ratio * 100)}%`);

/** `[######    ]`, `width` characters between the brackets. */
export function bar(ratio: number, width: number): string {
  const full = Math.round(Math.min(1, Math.max(0, ratio)) * width);
  return `[${"#".repeat(full)}${" ".repeat(width - full)}]`;
}

/** State of a GPU in one word, readable without colour. */
export function gpuState(gpu: NodeGpu): string {
  if (!gpu.is_healthy) return gpu.unhealthy_reason.startsWith("cordoned") ? "CORDONED" : "FAULTY";
  return gpu.is_claimed || gpu.deploy_id ? "used" : "free";
}

/** Type for people: a host without GPUs offers shares of its processor. */
export const typeText = (gpu: Pick<NodeGpu, "type" | "uuid">): string =>
  isProcessorSlot(gpu) ? "processor slot" : gpu.type;

/** Heading of a list. */
export const gpusTitle = (gpus: readonly NodeGpu[]): string =>
  gpus.every(isProcessorSlot) ? "Processor slots" : "GPUs";

export function gpuLine(gpu: NodeGpu): string {
  const used = gpu.memory_used_bytes;
  const cells = [
    String(gpu.index).padStart(2),
    typeText(gpu).padEnd(15),
    gpu.utilization_ratio === null ? "".padEnd(7) : bar(gpu.utilization_ratio, 5),
    percent(gpu.utilization_ratio).padStart(4),
    `${used === null ? "-" : gibText(used)}/${gibText(gpu.memory_bytes)}G`.padStart(8),
    gpu.temperature_celsius === null ? "   -" : `${Math.round(gpu.temperature_celsius)}C`.padStart(4),
    gpu.power_watts === null ? "    -" : `${Math.round(gpu.power_watts)}W`.padStart(5),
    gpuState(gpu).padEnd(8),
    gpu.deploy_id ?? "",
  ];
  return cells.join(" ").trimEnd();
}

export function instanceLine(one: NodeInstance): string {
  const load = `${one.in_flight} running, ${one.waiting} waiting, ${one.tokens_per_second.toFixed(1)} tok/s`;
  const memory = one.memory_bytes > 0 ? `, ${gibText(one.memory_bytes)}G` : "";
  const restarts = one.restarts > 0 ? `, ${counted(one.restarts, "restart")}` : "";
  return `${one.instance_id}  ${one.phase.padEnd(11)} ${load}${memory}${restarts}`;
}

export function loadLine(load: Load): string {
  const memory = `${gibText(load.memory_used_bytes)}/${gibText(load.memory_total_bytes)}G`;
  const disk = `${gibText(load.disk_free_bytes)}G of ${gibText(load.disk_total_bytes)}G free`;
  return `cpu ${bar(load.cpu_ratio, 10)} ${percent(load.cpu_ratio)}  memory ${memory}  disk ${disk}`;
}

/** GPUs out of use, with the reason. */
export const troubles = (gpus: readonly NodeGpu[]): readonly string[] =>
  gpus
    .filter((gpu) => !gpu.is_healthy)
    .map(
      (gpu) =>
        `${isProcessorSlot(gpu) ? "processor slot" : "GPU"} ${gpu.index} ${gpu.uuid}: ${gpu.unhealthy_reason || "faulty"}`,
    );
