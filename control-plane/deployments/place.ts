// Placement as a pure function: filter by what must hold, then the tightest fit. Every refusal carries its reason, which is
// what "why is it pending" and "will it fit" show.
import type { GpuType } from "../../proto/gpu.ts";
import type { HostId } from "../../proto/ids.ts";
import type { Gpu, HostView } from "../fleet/host.ts";
import type { Engine } from "./deployment.ts";

export interface Want {
  readonly gpu: GpuType;
  /** 0: needs none (an external engine). */
  readonly gpusPerInstance: number;
  /** Over all GPUs of the instance; 0 unknown. */
  readonly memoryBytes: number;
  readonly engine: Engine;
  /** Id or name of the one host allowed; undefined: any. */
  readonly host: string | undefined;
  /** Of a rented container, by the name under which hosts offer it. */
  readonly rentalImage?: string | undefined;
}

export interface Rejection {
  readonly host: string;
  readonly why: string;
}

export type Placement =
  | { readonly ok: true; readonly host: HostId; readonly revision: bigint; readonly gpus: readonly Gpu[] }
  | { readonly ok: false; readonly rejections: readonly Rejection[] };

export function place(want: Want, hosts: readonly HostView[]): Placement {
  const rejections: Rejection[] = [];
  const fits: { readonly host: HostView; readonly gpus: readonly Gpu[]; readonly left: number }[] = [];
  for (const host of hosts) {
    const why = refuse(want, host);
    if (why) rejections.push({ host: host.hostname || host.id, why });
    else fits.push({ host, ...take(want, host) });
  }
  // Tightest fit first: a whole empty host is worth more to an 8-GPU model than to this one.
  const best = fits.sort((a, b) => a.left - b.left || (a.host.id < b.host.id ? -1 : 1))[0];
  if (best) return { ok: true, host: best.host.id, revision: best.host.revision, gpus: best.gpus };
  return { ok: false, rejections: rejections.sort((a, b) => (a.host < b.host ? -1 : 1)) };
}

/** Why the host cannot take it, or undefined. */
function refuse(want: Want, host: HostView): string | undefined {
  if (want.host !== undefined && want.host !== host.id && want.host !== host.hostname)
    return `not the host that was asked for (${want.host})`;
  if (host.state !== "live") return `${host.state}: silent for ${Math.round(host.silentMs / 1000)} s`;
  if (!host.schedulable) return host.condition || "its data path is not proven yet";
  if (want.engine === "stoker" && !host.inventory.drivers.some((driver) => driver === "docker" || driver === "process"))
    return "it has no driver that starts model servers";
  if (want.engine === "custom" && !host.inventory.drivers.includes("docker")) return "it has no container engine";
  // A host names them as drivers of its own once its operator gave it their image.
  if ((want.engine === "vllm" || want.engine === "sglang") && !host.inventory.drivers.includes(want.engine))
    return `its operator named no image of ${want.engine} (STOKER_${want.engine.toUpperCase()}_IMAGE)`;
  if (want.engine === "agent_instance" && !host.inventory.drivers.includes("docker"))
    return "it has no container engine";
  if (want.engine === "container" && !host.inventory.rentalImages?.includes(want.rentalImage ?? ""))
    return host.inventory.rentalsUnavailable || `it does not offer the image ${want.rentalImage ?? ""}`;
  if (want.engine === "agent_instance" && host.inventory.memoryBytes < want.memoryBytes)
    return `it has ${mib(host.inventory.memoryBytes)} MiB of memory; ${mib(want.memoryBytes)} MiB needed`;
  if (want.gpusPerInstance === 0) return undefined;

  const ofType = host.inventory.gpus.filter((gpu) => gpu.type === want.gpu && isWhole(want, gpu));
  if (ofType.length === 0) return `it has no ${want.gpu} GPU`;
  const free = freeGpus(host, want.gpu).filter((gpu) => isWhole(want, gpu));
  if (free.length < want.gpusPerInstance) {
    const sick = ofType.filter((gpu) => !gpu.isHealthy).length;
    const unhealthy = sick > 0 ? `, ${sick} unhealthy` : "";
    return `${free.length} of ${ofType.length} ${want.gpu} GPUs are free${unhealthy}; ${want.gpusPerInstance} needed`;
  }
  const memory = memoryOf(largest(free, want.gpusPerInstance));
  if (memory < want.memoryBytes)
    return `its ${want.gpusPerInstance} largest free GPUs have ${mib(memory)} MiB; about ${mib(want.memoryBytes)} MiB needed`;
  return undefined;
}

/** The smallest GPUs that hold it, by index among equals; and how many of the type stay free. */
function take(want: Want, host: HostView): { readonly gpus: readonly Gpu[]; readonly left: number } {
  const count = want.gpusPerInstance;
  const free = freeGpus(host, want.gpu).filter((gpu) => isWhole(want, gpu));
  if (count === 0) return { gpus: [], left: free.length };
  const bySize = [...free].sort((a, b) => a.memoryBytes - b.memoryBytes || byIndex(a, b));
  for (let start = 0; start + count <= bySize.length; start++) {
    const gpus = bySize.slice(start, start + count);
    if (memoryOf(gpus) >= want.memoryBytes) return { gpus: gpus.sort(byIndex), left: free.length - count };
  }
  return { gpus: largest(free, count), left: free.length - count };
}

export function freeGpus(host: Pick<HostView, "inventory" | "claims">, type: GpuType): readonly Gpu[] {
  const claimed = new Set(host.claims.map((claim) => claim.gpuUuid));
  return host.inventory.gpus.filter((gpu) => gpu.type === type && gpu.isHealthy && !claimed.has(gpu.uuid));
}

/** A part of a GPU is good for a model, but nothing to rent out. */
const isWhole = (want: Want, gpu: Gpu) => want.engine !== "container" || !gpu.uuid.startsWith("MIG-");
const byIndex = (a: Gpu, b: Gpu) => a.index - b.index || (a.uuid < b.uuid ? -1 : 1);
const largest = (gpus: readonly Gpu[], count: number) =>
  [...gpus].sort((a, b) => b.memoryBytes - a.memoryBytes || byIndex(a, b)).slice(0, count);
const memoryOf = (gpus: readonly Gpu[]) => gpus.reduce((sum, gpu) => sum + gpu.memoryBytes, 0);
const mib = (bytes: number) => Math.round(bytes / 1024 / 1024);
