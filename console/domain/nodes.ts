import type { Responses } from "../../proto/gen/responses.ts";
import { isProcessorSlot } from "../../proto/gpu-vendors.ts";
import { text } from "../text/fleet.ts";

// Health, issues and capacity of hosts.

export type Gpu = Node["gpus"][number];

export type Instance = Node["instances"][number];

export type Node = Responses["GET /v1/admin/nodes"]["nodes"][number];

/** A host without GPUs offers shares of its processor. */
export const gpuTypeOf = (gpu: Pick<Gpu, "type" | "uuid">): string => (isProcessorSlot(gpu) ? text.slots : gpu.type);

export const gpuName = (gpu: Pick<Gpu, "type" | "uuid" | "index">): string =>
  isProcessorSlot(gpu) ? text.map.slot(gpu.index) : text.map.gpu(gpu.index);

/** Health of a GPU as a word and a sign, so that colour is not needed. */
export function healthOf(gpu: Gpu): { readonly sign: string; readonly word: string; readonly isFaulty: boolean } {
  if (gpu.cordoned_at !== null) return { sign: "▲", word: gpu.unhealthy_reason || "cordoned", isFaulty: true };
  if (!gpu.is_healthy) return { sign: "✕", word: gpu.unhealthy_reason || "faulty", isFaulty: true };
  return gpu.is_claimed ? { sign: "●", word: "in use", isFaulty: false } : { sign: "○", word: "free", isFaulty: false };
}

export function issuesOf(node: Node): readonly string[] {
  const issues = [...node.warnings];
  if (node.state === "unreachable") issues.push(`no contact for ${Math.round(node.silent_seconds)} s`);
  if (node.condition !== "") issues.push(node.condition);
  for (const gpu of node.gpus) if (healthOf(gpu).isFaulty) issues.push(`${gpuName(gpu)}: ${healthOf(gpu).word}`);
  return issues;
}

export interface Capacity {
  readonly type: string;
  readonly free: number;
  readonly all: number;
}

/** GPUs by type. Free GPUs accept new instances now. */
export function capacityOf(nodes: readonly Node[]): readonly Capacity[] {
  const types = new Map<string, { free: number; all: number }>();
  for (const node of nodes)
    for (const gpu of node.gpus) {
      const type = gpuTypeOf(gpu);
      const sum = types.get(type) ?? { free: 0, all: 0 };
      const isOpen = node.state === "ready" && node.condition === "" && !gpu.is_claimed && !healthOf(gpu).isFaulty;
      types.set(type, { free: sum.free + (isOpen ? 1 : 0), all: sum.all + 1 });
    }
  return [...types].map(([type, sum]) => ({ type, ...sum })).sort((a, b) => a.type.localeCompare(b.type));
}
