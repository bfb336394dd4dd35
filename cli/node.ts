// Hosts as the server and the local agent tell of them, and how a terminal shows them.

export interface NodeGpu {
  readonly uuid: string;
  readonly index: number;
  readonly type: string;
  readonly name: string;
  readonly memory_bytes: number;
  readonly is_healthy: boolean;
  readonly unhealthy_reason: string;
  readonly is_claimed?: boolean;
  readonly deploy_id?: string | null;
  readonly utilization_ratio: number | null;
  readonly memory_used_bytes: number | null;
  readonly temperature_celsius: number | null;
  readonly power_watts: number | null;
  readonly power_limit_watts?: number | null;
  readonly processes: readonly {
    readonly pid: number;
    readonly name: string;
    readonly memory_bytes: number;
    readonly instance_id: string | null;
  }[];
}

export interface NodeInstance {
  readonly instance_id: string;
  readonly deploy_id: string;
  readonly phase: string;
  readonly in_flight: number;
  readonly waiting: number;
  readonly tokens_per_second: number;
  readonly restarts: number;
  readonly memory_bytes: number;
  readonly gpu_uuids: readonly string[];
}

export interface Load {
  readonly cpu_ratio: number;
  readonly memory_used_bytes: number;
  readonly memory_total_bytes: number;
  readonly disk_free_bytes: number;
  readonly disk_total_bytes: number;
}

export interface Spool {
  readonly records: number;
  readonly bytes: number;
  readonly oldest_age_seconds: number;
}

export interface Node {
  readonly node_id: string;
  readonly name: string;
  readonly pool?: string;
  readonly state: string;
  readonly condition: string;
  readonly silent_seconds: number;
  readonly advertise: string;
  readonly agent_version: string;
  readonly os: string;
  readonly cpu_model: string;
  readonly cpu_cores: number;
  readonly memory_bytes: number;
  readonly docker_version: string;
  readonly nvidia_driver_version: string;
  readonly cuda_version: string;
  readonly warnings: readonly string[];
  readonly figures_age_seconds: number | null;
  readonly clock_skew_seconds: number | null;
  readonly usage_spool: Spool | null;
  readonly load: Load | null;
  readonly gpus: readonly NodeGpu[];
  readonly instances: readonly NodeInstance[];
}

const gib = 1024 ** 3;

export const gibText = (bytes: number): string => (bytes / gib).toFixed(bytes < 10 * gib ? 1 : 0);
export const percent = (ratio: number | null): string => (ratio === null ? "-" : `${Math.round(ratio * 100)}%`);

/** `[######    ] ` of that many places. */
export function bar(ratio: number, places: number): string {
  const full = Math.round(Math.min(1, Math.max(0, ratio)) * places);
  return `[${"#".repeat(full)}${" ".repeat(places - full)}]`;
}

/** One word for a GPU, readable without colour. */
export function gpuState(gpu: NodeGpu): string {
  if (!gpu.is_healthy) return gpu.unhealthy_reason.startsWith("cordoned") ? "CORDONED" : "ILL";
  return gpu.is_claimed || gpu.deploy_id ? "used" : "free";
}

export function gpuLine(gpu: NodeGpu): string {
  const used = gpu.memory_used_bytes;
  const cells = [
    String(gpu.index).padStart(2),
    gpu.type.padEnd(15),
    gpu.utilization_ratio === null ? "".padEnd(12) : bar(gpu.utilization_ratio, 10),
    percent(gpu.utilization_ratio).padStart(4),
    `${used === null ? "-" : gibText(used)}/${gibText(gpu.memory_bytes)}G`.padStart(10),
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
  const restarts = one.restarts > 0 ? `, ${one.restarts} restarts` : "";
  return `${one.instance_id}  ${one.phase.padEnd(11)} ${load}${memory}${restarts}`;
}

export function loadLine(load: Load): string {
  const memory = `${gibText(load.memory_used_bytes)}/${gibText(load.memory_total_bytes)}G`;
  const disk = `${gibText(load.disk_free_bytes)}G of ${gibText(load.disk_total_bytes)}G free`;
  return `cpu ${bar(load.cpu_ratio, 10)} ${percent(load.cpu_ratio)}  memory ${memory}  disk ${disk}`;
}

/** GPUs that are out of use, each with why. */
export const troubles = (gpus: readonly NodeGpu[]): readonly string[] =>
  gpus.filter((gpu) => !gpu.is_healthy).map((gpu) => `GPU ${gpu.index} ${gpu.uuid}: ${gpu.unhealthy_reason}`);
