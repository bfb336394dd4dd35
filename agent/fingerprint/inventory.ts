// Combines the probes into the inventory of this host. A failed probe leaves its fields empty; GPUs that were seen once and can
// no longer be read stay in the list as unhealthy, so that their instances are not treated as gone.
import { hostname } from "node:os";
import type { Logger } from "pino";
import type { Inventory } from "../../proto/gen/stoker/fleet/v1/Inventory.ts";
import { type DockerFacts, dockerProbe } from "./docker.ts";
import { type FoundGpu, type GpuFacts, gpuProbe } from "./gpu.ts";
import { type Fault, goneFault, xidFault } from "./gpu-faults.ts";
import {
  type CpuMemoryFacts,
  cpuMemoryProbe,
  type DiskFacts,
  diskProbe,
  type HostParts,
  hostPartsProbe,
  type OperatingSystemFacts,
  operatingSystemProbe,
} from "./host-parts.ts";
import type { Probe } from "./probe.ts";
import type { XidWatch } from "./xid.ts";

export interface InventoryOptions {
  readonly dataDir: string;
  readonly overrides: GpuOverrides;
  readonly log: Logger;
  readonly dockerSocket?: string | undefined;
  /** Names of the drivers this agent runs instances with. */
  readonly drivers?: readonly string[] | undefined;
  /** Engines from elsewhere that it has images of: they run where Docker does. */
  readonly engines?: readonly string[];
  readonly hostname?: string;
  readonly xids?: Pick<XidWatch, "xids" | "trouble">;
  /** Counts and times of faults belong to it. */
  readonly bootId?: string;
  /** host:port of the agent's own metrics page. */
  readonly metricsAddress?: () => string;
  /** Reason for which usage cannot be recorded here; empty: it can. */
  readonly recordsUnavailable?: () => string;
  /** Offered rentals, read every time; absent: none. */
  readonly rentals?: () => Promise<Pick<Inventory, "rentalImages" | "rentalsUnavailable">>;
  /** False: rented containers get no GPU (tests), so they need no nvidia runtime. */
  readonly rentalsUseGpus?: boolean;
  /** Missing requirement for the isolation of containers, read every time; undefined: none. */
  readonly isolation?: (dockerVersion: string) => Promise<string | undefined>;
  /** Images that it runs; absent: not reported. */
  readonly containers?: (dockerVersion: string) => NonNullable<Inventory["containers"]>;
  readonly probes?: Partial<HostProbes>;
}

interface HostProbes {
  readonly gpu: Probe<GpuFacts>;
  readonly cpuMemory: Probe<CpuMemoryFacts>;
  readonly disk: Probe<DiskFacts>;
  readonly docker: Probe<DockerFacts>;
  readonly operatingSystem: Probe<OperatingSystemFacts>;
  readonly hostParts: Probe<HostParts>;
}

export interface HostInventory {
  /** Takes up to 20 s where probes hang. Rejects only with the signal's reason. */
  read(signal: AbortSignal): Promise<Inventory>;
  /** Reason for which the last reading could not detect a Docker engine; undefined: it could. A later reading may succeed. */
  unclearDocker(): string | undefined;
}

const probeLimitMs = 20_000;

export function createInventory(options: InventoryOptions): HostInventory {
  const boot = (options.bootId ?? "").slice(0, 8);
  const probes: HostProbes = {
    gpu: gpuProbe({ boot }),
    cpuMemory: cpuMemoryProbe(),
    disk: diskProbe(options.dataDir),
    docker: dockerProbe(options.dockerSocket),
    operatingSystem: operatingSystemProbe(),
    hostParts: hostPartsProbe(),
    ...options.probes,
  };
  const host = options.hostname ?? hostname();
  const failing = new Map<string, string>();
  const os = once(probes.operatingSystem);
  let lastGpus: readonly FoundGpu[] = [];
  let lastDocker: DockerFacts = { dockerVersion: "", hasNvidiaRuntime: false };
  let last = { driverVersion: "", cudaVersion: "" };
  const goneAt = new Map<string, Fault>();

  async function attempt<Facts>(probe: Probe<Facts>, without: Facts, signal: AbortSignal): Promise<Facts> {
    try {
      const facts = await within(probe.read(signal), signal);
      // The GPU probe itself reports GPUs that cannot be read.
      if (probe.name !== "gpu") failing.delete(probe.name);
      return facts;
    } catch (error) {
      signal.throwIfAborted();
      report(probe.name, (error as Error).message);
      return without;
    }
  }

  /** Once per failure, not once per reading. */
  function report(probe: string, reason: string): void {
    if (failing.get(probe) !== reason) options.log.warn({ probe, reason }, "probe failed");
    failing.set(probe, reason);
  }

  function gpusOf(facts: GpuFacts, cpuMemory: CpuMemoryFacts): readonly FoundGpu[] {
    switch (facts.kind) {
      case "found": {
        const { driverVersion, cudaVersion } = facts;
        last = { driverVersion: driverVersion || last.driverVersion, cudaVersion: cudaVersion || last.cudaVersion };
        lastGpus = [...facts.gpus, ...goneSince(facts.gpus)];
        return lastGpus.map(judged);
      }
      case "broken":
        report("gpu", facts.reason);
        return lastGpus.map((gpu) => judged(ill(gpu, facts.reason)));
      case "none":
        if (lastGpus.length === 0) return virtualGpus({ hostname: host, ...cpuMemory }, options.overrides);
        return lastGpus.map((gpu) => judged(faulty(gpu, goneFor(gpu.uuid))));
    }
  }

  /** Slices come and go with the operator's will; whole GPUs do not. */
  function goneSince(present: readonly FoundGpu[]): readonly FoundGpu[] {
    const here = new Set(present.flatMap(({ uuid, parentUuid }) => [uuid, parentUuid]));
    for (const uuid of goneAt.keys()) if (here.has(uuid)) goneAt.delete(uuid);
    return lastGpus.flatMap((gpu) => {
      if (here.has(gpu.uuid)) return [];
      if (gpu.parentUuid !== "") return here.has(gpu.parentUuid) ? [] : [faulty(gpu, goneFor(gpu.uuid))];
      return [faulty(gpu, goneFor(gpu.uuid))];
    });
  }

  function goneFor(uuid: string): Fault {
    const fault = goneAt.get(uuid) ?? goneFault(new Date().toISOString());
    goneAt.set(uuid, fault);
    return fault;
  }

  /** An Xid says more than what followed from it. */
  function judged(gpu: FoundGpu): FoundGpu {
    const fault = xidFault(gpu, options.xids?.xids ?? [], boot);
    return fault ? faulty(gpu, fault) : gpu;
  }

  function warnings(isNvidia: boolean, docker: DockerFacts, noRentals = ""): string[] {
    const all = [...failing].map(([probe, reason]) => `${probe}: ${reason}`);
    if (isNvidia && options.xids?.trouble) all.push(options.xids.trouble);
    if (isNvidia && docker.dockerVersion !== "" && !docker.hasNvidiaRuntime)
      all.push("the Docker engine has no nvidia runtime: install the NVIDIA container toolkit to use the GPUs");
    if (noRentals !== "") all.push(`this host offers no rentals: ${noRentals}`);
    return all.map((warning) => warning.slice(0, 500));
  }

  return {
    unclearDocker: () => failing.get(probes.docker.name),
    async read(signal) {
      const [gpu, cpuMemory, disk, docker, system, parts] = await Promise.all([
        attempt(probes.gpu, { kind: "broken", reason: "the probe failed" } as const, signal),
        attempt(probes.cpuMemory, { cpuModel: "", cpuCores: 1, memoryBytes: 0 }, signal),
        attempt(probes.disk, { diskTotalBytes: 0, diskFreeBytes: 0 }, signal),
        // An engine that was present and does not reply now is slow, not gone.
        attempt(probes.docker, lastDocker, signal),
        attempt(os, { os: process.platform }, signal),
        attempt(probes.hostParts, { cpuPhysicalCores: 0, disks: [], networks: [] }, signal),
      ]);
      lastDocker = docker;
      if (gpu.kind !== "broken") failing.delete("gpu");
      const open = await options.isolation?.(docker.dockerVersion);
      if (open === undefined) failing.delete("firewall");
      else report("firewall", open);
      const gpus = gpusOf(gpu, cpuMemory);
      const isNvidia = lastGpus.length > 0;
      const offered = await options.rentals?.();
      const lacksRuntime = isNvidia && !docker.hasNvidiaRuntime && options.rentalsUseGpus !== false;
      const rentals =
        offered && lacksRuntime && (offered.rentalImages?.length ?? 0) > 0
          ? { rentalImages: [], rentalsUnavailable: "the Docker engine has no nvidia runtime" }
          : offered;
      return {
        ...system,
        ...cpuMemory,
        ...disk,
        cpuPhysicalCores: parts.cpuPhysicalCores,
        disks: [...parts.disks],
        networks: [...parts.networks],
        gpus: [...gpus],
        drivers: [
          ...(options.drivers ?? [...(docker.dockerVersion ? ["docker"] : []), "process", "external"]),
          ...(docker.dockerVersion ? (options.engines ?? []) : []),
        ],
        dockerVersion: docker.dockerVersion,
        hasNvidiaRuntime: docker.hasNvidiaRuntime,
        nvidiaDriverVersion: isNvidia ? last.driverVersion : "",
        cudaVersion: isNvidia ? last.cudaVersion : "",
        warnings: warnings(isNvidia, docker, rentals?.rentalsUnavailable),
        metricsAddress: options.metricsAddress?.() ?? "",
        recordsUnavailable: options.recordsUnavailable?.() ?? "",
        ...rentals,
        ...(options.containers ? { containers: options.containers(docker.dockerVersion) } : {}),
      };
    },
  };
}

function ill(gpu: FoundGpu, reason: string): FoundGpu {
  return { ...gpu, healthy: false, unhealthyReason: reason };
}

function faulty(gpu: FoundGpu, fault: Fault): FoundGpu {
  return { ...ill(gpu, fault.reason), faultId: fault.id };
}

/** Abandons a probe that cannot be stopped, such as one on a hanging file system. */
async function within<Facts>(reading: Promise<Facts>, signal: AbortSignal): Promise<Facts> {
  const ending = new AbortController();
  const bound = AbortSignal.any([signal, ending.signal]);
  const timer = setTimeout(() => ending.abort(new Error(`no answer within ${probeLimitMs / 1000} s`)), probeLimitMs);
  try {
    return await Promise.race([
      reading,
      new Promise<never>((_, reject) => bound.addEventListener("abort", () => reject(bound.reason), { once: true })),
    ]);
  } finally {
    clearTimeout(timer);
  }
}

function once<Facts>(probe: Probe<Facts>): Probe<Facts> {
  let known: Facts | undefined;
  return {
    name: probe.name,
    async read(signal) {
      known ??= await probe.read(signal);
      return known;
    },
  };
}

interface GpuOverrides {
  /** Number of GPUs that a host without NVIDIA GPUs offers. */
  readonly gpus?: number | undefined;
  readonly gpuMemoryBytes?: number | undefined;
}

/** The rest is for the system, PostgreSQL and ourselves. */
const shareOfMemory = 0.75;
/** Enough for a small language model with its context; smaller pieces would fit nothing. */
const minBytes = 820 * 1024 * 1024;
const most = 16;

/** GPUs of type `other` made of processor and memory: two per core as far as memory goes. */
export function virtualGpus(
  host: { readonly hostname: string; readonly cpuCores: number; readonly memoryBytes: number },
  overrides: GpuOverrides,
): FoundGpu[] {
  const bytes = Math.floor(host.memoryBytes * shareOfMemory);
  const fitting = Math.floor(bytes / (overrides.gpuMemoryBytes ?? minBytes));
  const count = overrides.gpus ?? Math.max(1, Math.min(2 * host.cpuCores, fitting, most));
  const memoryBytes = overrides.gpuMemoryBytes ?? Math.floor(bytes / Math.max(1, count));
  return Array.from({ length: count }, (_, index) => ({
    uuid: `cpu-${host.hostname}-${index}`,
    index,
    type: "other",
    name: "share of processor and memory",
    memoryBytes,
    healthy: true,
    unhealthyReason: "",
    faultId: "",
    pciBusId: "",
    migProfile: "",
    parentUuid: "",
    computeCapability: "",
    powerLimitWatts: 0,
    eccUncorrected: 0,
  }));
}
