// Combines the probes into the inventory of this host. A failed probe leaves its fields empty; GPUs that were seen once and can
// no longer be read stay in the list as unhealthy, so that their instances are not treated as gone.
import { hostname } from "node:os";
import type { Logger } from "pino";
import type { Inventory } from "../../proto/gen/stoker/fleet/v1/Inventory.ts";
import { type GpuVendor, gpuVendors, vendorOf } from "../../proto/gpu-vendors.ts";
import { type AllGpus, allGpus } from "./all-gpus.ts";
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
import { plainGpu } from "./vendors/vendor.ts";
import type { XidWatch } from "./xid.ts";

export interface InventoryOptions {
  readonly dataDir: string;
  readonly overrides: GpuOverrides;
  readonly log: Logger;
  /** Names of the drivers this agent runs instances with. */
  readonly drivers?: readonly string[] | undefined;
  /** False: its models never give up their memory while they are unused. */
  readonly sleeps?: boolean;
  /** Engines from elsewhere that this host can run. */
  readonly engines?: (dockerVersion: string) => readonly string[];
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

const probeLimitMs = 20_000;

export class HostInventory {
  readonly #options: InventoryOptions;
  readonly #boot: string;
  readonly #probes: HostProbes;
  readonly #host: string;
  readonly #failing = new Map<string, string>();
  readonly #os: Probe<OperatingSystemFacts>;
  #lastGpus: readonly FoundGpu[] = [];
  readonly #gpus: AllGpus;
  #lastDocker: DockerFacts = { dockerVersion: "", hasNvidiaRuntime: false, cdiDevices: [] };
  #last = { driverVersion: "", cudaVersion: "" };
  readonly #goneAt = new Map<string, Fault>();

  constructor(options: InventoryOptions) {
    this.#options = options;
    this.#boot = (options.bootId ?? "").slice(0, 8);
    this.#gpus = allGpus(options.probes?.gpu ?? gpuProbe({ boot: this.#boot }), options.probes?.gpu ? [] : undefined);
    this.#probes = {
      cpuMemory: cpuMemoryProbe(),
      disk: diskProbe(options.dataDir),
      docker: dockerProbe(),
      operatingSystem: operatingSystemProbe(),
      hostParts: hostPartsProbe(),
      ...options.probes,
      gpu: this.#gpus.probe,
    };
    this.#host = options.hostname ?? hostname();
    this.#os = once(this.#probes.operatingSystem);
  }

  /** Ways to a GPU, as of the last reading. */
  readonly gpuAccess = (uuid: string) => this.#gpus.accessOf(uuid);

  /** CDI devices of the container engine, as of the last reading. */
  readonly cdiDevices = (): ReadonlySet<string> => new Set(this.#lastDocker.cdiDevices);

  async #attempt<Facts>(probe: Probe<Facts>, without: Facts, signal: AbortSignal): Promise<Facts> {
    try {
      const facts = await within(probe.read(signal), signal);
      // The GPU probe itself reports GPUs that cannot be read.
      if (probe.name !== "gpu") this.#failing.delete(probe.name);
      return facts;
    } catch (error) {
      signal.throwIfAborted();
      this.#report(probe.name, (error as Error).message);
      return without;
    }
  }

  /** Once per failure, not once per reading. */
  #report(probe: string, reason: string): void {
    if (this.#failing.get(probe) !== reason) this.#options.log.warn({ probe, reason }, "probe failed");
    this.#failing.set(probe, reason);
  }

  #gpusOf(facts: GpuFacts, cpuMemory: CpuMemoryFacts): readonly FoundGpu[] {
    switch (facts.kind) {
      case "found": {
        const { driverVersion, cudaVersion } = facts;
        this.#last = {
          driverVersion: driverVersion || this.#last.driverVersion,
          cudaVersion: cudaVersion || this.#last.cudaVersion,
        };
        this.#lastGpus = [...facts.gpus, ...this.#missing(facts.gpus, facts.broken)];
        return this.#lastGpus.map(this.#judged);
      }
      case "broken":
        this.#report("gpu", facts.reason);
        return this.#lastGpus.map((gpu) => this.#judged(ill(gpu, facts.reason)));
      case "none":
        if (this.#lastGpus.length === 0)
          return virtualGpus({ hostname: this.#host, ...cpuMemory }, this.#options.overrides);
        return this.#lastGpus.map((gpu) => this.#judged(faulty(gpu, this.#goneFor(gpu.uuid))));
    }
  }

  /** Slices come and go with the operator's will; whole GPUs do not. GPUs of a broken tool are not gone. */
  #missing(present: readonly FoundGpu[], broken?: ReadonlyMap<GpuVendor, string>): readonly FoundGpu[] {
    const here = new Set(present.flatMap(({ uuid, parentUuid }) => [uuid, parentUuid]));
    for (const uuid of this.#goneAt.keys()) if (here.has(uuid)) this.#goneAt.delete(uuid);
    return this.#lastGpus.flatMap((gpu) => {
      if (here.has(gpu.uuid)) return [];
      const vendor = vendorOf(gpu.uuid);
      const unreadable = vendor && broken?.get(vendor);
      if (unreadable !== undefined) return [ill(gpu, unreadable)];
      if (gpu.parentUuid !== "") return here.has(gpu.parentUuid) ? [] : [faulty(gpu, this.#goneFor(gpu.uuid))];
      return [faulty(gpu, this.#goneFor(gpu.uuid))];
    });
  }

  #goneFor(uuid: string): Fault {
    const fault = this.#goneAt.get(uuid) ?? goneFault(new Date().toISOString());
    this.#goneAt.set(uuid, fault);
    return fault;
  }

  /** An Xid says more than what followed from it. */
  readonly #judged = (gpu: FoundGpu): FoundGpu => {
    const fault = xidFault(gpu, this.#options.xids?.xids ?? [], this.#boot);
    return fault ? faulty(gpu, fault) : gpu;
  };

  #warnings(isNvidia: boolean, docker: DockerFacts, noRentals = ""): string[] {
    const all = [...this.#failing].map(([probe, reason]) => `${probe}: ${reason}`);
    if (isNvidia && this.#options.xids?.trouble) all.push(this.#options.xids.trouble);
    if (isNvidia && docker.dockerVersion !== "" && !docker.hasNvidiaRuntime)
      all.push("the Docker engine has no nvidia runtime: install the NVIDIA container toolkit to use the GPUs");
    if (noRentals !== "") all.push(`this host offers no rentals: ${noRentals}`);
    return all.map((warning) => warning.slice(0, 500));
  }

  /** Reason for which the last reading could not detect a Docker engine; undefined: it could. A later reading may succeed. */
  readonly unclearDocker = () => this.#failing.get(this.#probes.docker.name);

  /** Takes up to 20 s where probes hang. Rejects only with the signal's reason. */
  async read(signal: AbortSignal): Promise<Inventory> {
    const [gpu, cpuMemory, disk, docker, system, parts] = await Promise.all([
      this.#attempt(this.#probes.gpu, { kind: "broken", reason: "the probe failed" } as const, signal),
      this.#attempt(this.#probes.cpuMemory, { cpuModel: "", cpuCores: 1, memoryBytes: 0 }, signal),
      this.#attempt(this.#probes.disk, { diskTotalBytes: 0, diskFreeBytes: 0 }, signal),
      // An engine that was present and does not reply now is slow, not gone.
      this.#attempt(this.#probes.docker, this.#lastDocker, signal),
      this.#attempt(this.#os, { os: process.platform }, signal),
      this.#attempt(this.#probes.hostParts, { cpuPhysicalCores: 0, disks: [], networks: [] }, signal),
    ]);
    this.#lastDocker = docker;
    if (gpu.kind !== "broken") this.#failing.delete("gpu");
    const broken = gpu.kind === "found" ? gpu.broken : undefined;
    for (const vendor of gpuVendors) {
      const reason = broken?.get(vendor);
      if (reason === undefined) this.#failing.delete(`gpu ${vendor}`);
      else this.#report(`gpu ${vendor}`, reason);
    }
    const open = await this.#options.isolation?.(docker.dockerVersion);
    if (open === undefined) this.#failing.delete("firewall");
    else this.#report("firewall", open);
    const gpus = this.#gpusOf(gpu, cpuMemory);
    const isNvidia = this.#lastGpus.some(({ uuid }) => vendorOf(uuid) === "nvidia");
    const offered = await this.#options.rentals?.();
    const lacksRuntime = isNvidia && !docker.hasNvidiaRuntime && this.#options.rentalsUseGpus !== false;
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
        ...(this.#options.drivers ?? [...(docker.dockerVersion ? ["docker"] : []), "process", "external"]),
        ...(this.#options.engines?.(docker.dockerVersion) ?? []),
      ],
      dockerVersion: docker.dockerVersion,
      hasNvidiaRuntime: docker.hasNvidiaRuntime,
      sleeps: this.#options.sleeps ?? true,
      wakesByAccount: true,
      nvidiaDriverVersion: isNvidia ? this.#last.driverVersion : "",
      cudaVersion: isNvidia ? this.#last.cudaVersion : "",
      warnings: this.#warnings(isNvidia, docker, rentals?.rentalsUnavailable),
      metricsAddress: this.#options.metricsAddress?.() ?? "",
      recordsUnavailable: this.#options.recordsUnavailable?.() ?? "",
      ...rentals,
      ...(this.#options.containers ? { containers: this.#options.containers(docker.dockerVersion) } : {}),
    };
  }
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
/** Memory of a host per slot, where that gives more slots than its cores do. */
const bytesPerSlot = 3 * 1024 ** 3;
const maxSlots = 64;

interface Machine {
  readonly cpuCores: number;
  readonly memoryBytes: number;
}

/** GPUs of type `other` on a host without GPUs: two per core, or one per 3 GiB where that is more, as far as memory goes. */
export function slotCount({ cpuCores, memoryBytes }: Machine, bytesOfEach = minBytes): number {
  const fitting = Math.floor((memoryBytes * shareOfMemory) / bytesOfEach);
  const wanted = Math.max(2 * cpuCores, Math.floor(memoryBytes / bytesPerSlot));
  return Math.max(1, Math.min(wanted, fitting, maxSlots));
}

/** GPUs of type `other`, each a share of processor and memory. */
export function virtualGpus(host: Machine & { readonly hostname: string }, overrides: GpuOverrides): FoundGpu[] {
  const bytes = Math.floor(host.memoryBytes * shareOfMemory);
  const count = overrides.gpus ?? slotCount(host, overrides.gpuMemoryBytes);
  const memoryBytes = overrides.gpuMemoryBytes ?? Math.floor(bytes / Math.max(1, count));
  return Array.from({ length: count }, (_, index) =>
    plainGpu({
      uuid: `cpu-${host.hostname}-${index}`,
      index,
      name: "share of processor and memory",
      memoryBytes,
      healthy: true,
      unhealthyReason: "",
    }),
  );
}
