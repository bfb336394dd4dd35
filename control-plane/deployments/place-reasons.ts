// Explains in a sentence why each host was refused. Computed on request only: placement itself does not check most hosts.
import { isProcessorSlot } from "../../proto/gpu-vendors.ts";
import type { HostView } from "../fleet/host.ts";
import {
  type FreeGpu,
  fitOn,
  freeGpus,
  isReserved,
  isSlice,
  isUsable,
  mayShare,
  refuse,
  type Want,
} from "./place-fit.ts";

export interface Rejection {
  readonly host: string;
  readonly why: string;
}

/** For every host that cannot take it, by name. */
export function rejections(want: Want, hosts: readonly HostView[]): readonly Rejection[] {
  return hosts
    .flatMap((host) => {
      const why = whyNot(want, host);
      return why === undefined ? [] : [{ host: host.hostname || host.id, why }];
    })
    .sort((a, b) => (a.host < b.host ? -1 : 1));
}

/** Undefined when the host can take it. */
export function whyNot(want: Want, host: HostView): string | undefined {
  const refused = refuse(want, host);
  if (refused !== undefined) return refused;
  if (fitOn(want, host)) return undefined;
  const { inventory } = host;
  const freeMemory = Math.max(0, inventory.memoryBytes - host.grantedMemoryBytes);
  if (want.gpusPerInstance === 0)
    return `${mib(freeMemory)} of its ${mib(inventory.memoryBytes)} MiB of memory are free; ${mib(want.memoryBytes)} MiB needed`;

  const { gpu: type, gpusPerInstance: count } = want;
  const named = inventory.gpus.filter((gpu) => gpu.type === type);
  const ofType = named.filter((gpu) => isUsable(want, gpu));
  if (ofType.length === 0) return named.length > 0 ? whyNoSlice(want, named.length) : `it has no ${type} GPU`;
  const free = freeGpus(host, type).filter(({ gpu }) => isUsable(want, gpu));
  if (free.length < count) return `${tooFew(host, want, free.length, ofType)}; ${count} needed`;
  if (isReserved(want)) return `its free ${type} GPUs are reserved for accounts with a guaranteed minimum`;
  if (tooSmall(want, free)) {
    const largestFree = [...free].sort((a, b) => b.freeBytes - a.freeBytes).slice(0, count);
    const bytes = largestFree.reduce((sum, one) => sum + one.freeBytes, 0);
    const [largest] = largestFree;
    if (count === 1 && largest && isSlice(largest.gpu))
      return `the largest of its free GPUs is a slice (${largest.gpu.migProfile}) of ${mib(bytes)} MiB; about ${mib(want.memoryBytes)} MiB needed`;
    const largestOnes = count === 1 ? "largest free GPU has" : `${count} largest free GPUs have`;
    return `its ${largestOnes} ${mib(bytes)} MiB; about ${mib(want.memoryBytes)} MiB needed`;
  }
  return `${mib(freeMemory)} of its ${mib(inventory.memoryBytes)} MiB of memory are free, which is less than the share of ${count} of its GPUs`;
}

function whyNoSlice({ gpu: type, engine }: Want, slices: number): string {
  const have = `its ${slices} ${type} ${slices === 1 ? "GPU is a slice" : "GPUs are slices"} of a GPU (MIG)`;
  return engine === "container" ? `${have}, and slices cannot be rented` : `${have}, and slices cannot be combined`;
}

function tooFew(host: HostView, want: Want, free: number, ofType: readonly HostView["inventory"]["gpus"][number][]) {
  const sick = ofType.filter((gpu) => !gpu.isHealthy).length;
  const claimed = new Set(host.claims.map((claim) => claim.gpuUuid));
  const uuids = new Set(ofType.map((gpu) => gpu.uuid));
  const own = host.claims.filter(({ account, gpuUuid }) => account === want.account && uuids.has(gpuUuid)).length;
  const taken = ofType.filter(
    (gpu) => gpu.isHealthy && !claimed.has(gpu.uuid) && (host.gpuMemoryUsed.get(gpu.uuid) ?? 0) > gpu.memoryBytes / 4,
  ).length;
  const notes = [
    ...(sick > 0 ? [`, ${sick} unhealthy`] : []),
    ...(taken > 0 ? [`, ${taken} with memory still in use`] : []),
    ...(mayShare(want) ? [", and no capacity beside your other models"] : []),
    ...(own > 0
      ? [`, ${own} used by other deployments of this account (\`stoker deploy stop\` or \`delete\` frees a model's)`]
      : []),
  ];
  return `${free} of ${ofType.length} ${want.gpu} GPUs are free${notes.join("")}`;
}

function tooSmall(want: Want, free: readonly FreeGpu[]): boolean {
  const each = want.memoryBytes / want.gpusPerInstance;
  if (free.every(({ gpu }) => isProcessorSlot(gpu))) {
    const largest = [...free].sort((a, b) => b.freeBytes - a.freeBytes).slice(0, want.gpusPerInstance);
    return largest.reduce((sum, one) => sum + one.freeBytes, 0) < want.memoryBytes;
  }
  return free.filter(({ freeBytes }) => freeBytes >= each).length < want.gpusPerInstance;
}

const mib = (bytes: number) => Math.round(bytes / 1024 / 1024);

const maxHosts = 20;

/**
 * Summarises why a deployment waits, in bounded size. Lists each host by name while there are few; otherwise one line per reason, the
 * most frequent first.
 */
export function summarize(rejections: readonly Rejection[]): readonly Rejection[] {
  if (rejections.length <= maxHosts) return rejections;
  const byWhy = [...Map.groupBy(rejections, ({ why }) => why)]
    .map(([why, hosts]) => ({ why, hosts }))
    .sort((a, b) => b.hosts.length - a.hosts.length || (a.why < b.why ? -1 : 1));
  const lines = byWhy.slice(0, maxHosts).map(({ why, hosts }) => ({
    host: hosts.length === 1 ? (hosts[0] as Rejection).host : `${hosts.length} hosts`,
    why,
  }));
  const rest = byWhy.slice(maxHosts).reduce((sum, { hosts }) => sum + hosts.length, 0);
  return rest === 0 ? lines : [...lines, { host: `${rest} hosts`, why: "for other reasons" }];
}
