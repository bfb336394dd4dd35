// Hosts as the server tells them, and what an operator should look at first.

export interface Gpu {
  readonly uuid: string;
  readonly index: number;
  readonly type: string;
  readonly memory_bytes: number;
  readonly is_healthy: boolean;
  readonly unhealthy_reason: string;
  readonly cordoned_at: string | null;
  readonly is_claimed: boolean;
  readonly deploy_id: string | null;
  readonly utilization_ratio: number | null;
  readonly memory_used_bytes: number | null;
  readonly temperature_celsius: number | null;
  readonly power_watts: number | null;
  readonly power_limit_watts: number | null;
  readonly processes: readonly {
    readonly pid: number;
    readonly name: string;
    readonly memory_bytes: number;
    readonly instance_id: string | null;
  }[];
}

export interface Instance {
  readonly instance_id: string;
  readonly deploy_id: string;
  readonly phase: string;
  readonly in_flight: number;
  readonly waiting: number;
  readonly tokens_per_second: number;
  readonly restarts: number;
}

export interface Node {
  readonly node_id: string;
  readonly name: string;
  /** Label of the token it joined with; empty: none. */
  readonly pool: string;
  readonly state: string;
  /** What speaks against placing on it; empty: nothing. */
  readonly condition: string;
  readonly silent_seconds: number;
  readonly agent_version: string;
  readonly os: string;
  readonly cpu_model: string;
  readonly cpu_cores: number;
  readonly memory_bytes: number;
  readonly docker_version: string;
  readonly nvidia_driver_version: string;
  readonly cuda_version: string;
  readonly warnings: readonly string[];
  readonly clock_skew_seconds: number | null;
  readonly usage_spool: {
    readonly records: number;
    readonly bytes: number;
    readonly oldest_age_seconds: number;
  } | null;
  readonly load: {
    readonly cpu_ratio: number;
    readonly disk_free_bytes: number;
    readonly disk_total_bytes: number;
  } | null;
  readonly gpus: readonly Gpu[];
  readonly instances: readonly Instance[];
}

/** What a GPU is, in a word and a sign: no tile is read by its colour alone. */
export function healthOf(gpu: Gpu): { readonly sign: string; readonly word: string; readonly isSick: boolean } {
  if (!gpu.is_healthy) return { sign: "✕", word: gpu.unhealthy_reason || "at fault", isSick: true };
  if (gpu.cordoned_at !== null) return { sign: "▲", word: "cordoned", isSick: true };
  return gpu.is_claimed ? { sign: "●", word: "in use", isSick: false } : { sign: "○", word: "free", isSick: false };
}

/** Why somebody should look at this host; none: nothing is wrong with it. */
export function attentionOf(node: Node): readonly string[] {
  const reasons = [...node.warnings];
  if (node.state === "unreachable") reasons.push(`it has been silent for ${Math.round(node.silent_seconds)} s`);
  if (node.condition !== "") reasons.push(node.condition);
  for (const gpu of node.gpus) if (healthOf(gpu).isSick) reasons.push(`GPU ${gpu.index}: ${healthOf(gpu).word}`);
  return reasons;
}

export interface Capacity {
  readonly type: string;
  readonly free: number;
  readonly all: number;
}

/** GPUs by type; free are those that something new could be placed on now. */
export function capacityOf(nodes: readonly Node[]): readonly Capacity[] {
  const types = new Map<string, { free: number; all: number }>();
  for (const node of nodes)
    for (const gpu of node.gpus) {
      const sum = types.get(gpu.type) ?? { free: 0, all: 0 };
      const isOpen = node.state === "ready" && node.condition === "" && !gpu.is_claimed && !healthOf(gpu).isSick;
      types.set(gpu.type, { free: sum.free + (isOpen ? 1 : 0), all: sum.all + 1 });
    }
  return [...types].map(([type, sum]) => ({ type, ...sum })).sort((a, b) => a.type.localeCompare(b.type));
}
