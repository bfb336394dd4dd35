// What this host offers, put together from the probes. A probe that fails leaves its fields empty; GPUs that were seen once
// and cannot be asked any more stay in the list as unhealthy, so that their instances are not taken for gone.
import { hostname } from "node:os";
import type { Logger } from "pino";
import type { Inventory } from "../../proto/gen/stoker/fleet/v1/Inventory.ts";
import { type CpuMemoryFacts, cpuMemoryProbe } from "./cpu-memory.ts";
import { type DiskFacts, diskProbe } from "./disk.ts";
import { type DockerFacts, dockerProbe } from "./docker.ts";
import { driverProbe } from "./driver.ts";
import { type FoundGpu, type GpuFacts, gpuProbe } from "./gpu.ts";
import { type OperatingSystemFacts, operatingSystemProbe } from "./operating-system.ts";
import type { Probe } from "./probe.ts";
import { type GpuOverrides, virtualGpus } from "./virtual-gpus.ts";

export interface InventoryOptions {
  readonly dataDir: string;
  readonly overrides: GpuOverrides;
  readonly log: Logger;
  readonly dockerSocket?: string | undefined;
  /** Names of the drivers this agent runs instances with. */
  readonly drivers?: readonly string[] | undefined;
  readonly hostname?: string;
  readonly probes?: Partial<HostProbes>;
}

export interface HostProbes {
  readonly gpu: Probe<GpuFacts>;
  readonly cpuMemory: Probe<CpuMemoryFacts>;
  readonly disk: Probe<DiskFacts>;
  readonly docker: Probe<DockerFacts>;
  readonly operatingSystem: Probe<OperatingSystemFacts>;
}

export interface HostInventory {
  /** Takes up to 5 s where a probe hangs. Rejects only with the signal's reason. */
  read(signal: AbortSignal): Promise<Inventory>;
}

export function createInventory(options: InventoryOptions): HostInventory {
  const probes: HostProbes = {
    gpu: gpuProbe(),
    cpuMemory: cpuMemoryProbe(),
    disk: diskProbe(options.dataDir),
    docker: dockerProbe(options.dockerSocket),
    operatingSystem: operatingSystemProbe(),
    ...options.probes,
  };
  const host = options.hostname ?? hostname();
  const failing = new Map<string, string>();
  const os = once(probes.operatingSystem);
  const driver = once(driverProbe());
  let lastGpus: readonly FoundGpu[] = [];
  let lastDriverVersion = "";

  async function attempt<Facts>(probe: Probe<Facts>, without: Facts, signal: AbortSignal): Promise<Facts> {
    try {
      const facts = await probe.read(signal);
      failing.delete(probe.name);
      return facts;
    } catch (error) {
      signal.throwIfAborted();
      tell(probe.name, (error as Error).message);
      return without;
    }
  }

  /** Once per failure, not once per reading. */
  function tell(probe: string, reason: string): void {
    if (failing.get(probe) !== reason) options.log.warn({ probe, reason }, "probe failed");
    failing.set(probe, reason);
  }

  function gpusOf(facts: GpuFacts, cpuMemory: CpuMemoryFacts): readonly FoundGpu[] {
    switch (facts.kind) {
      case "found": {
        lastDriverVersion = facts.driverVersion;
        const present = new Set(facts.gpus.map(({ uuid }) => uuid));
        const gone = lastGpus
          .filter(({ uuid }) => !present.has(uuid))
          .map((gpu) => ill(gpu, "it is not listed any more"));
        lastGpus = [...facts.gpus, ...gone];
        return lastGpus;
      }
      case "broken":
        tell("gpu", facts.reason);
        return lastGpus.map((gpu) => ill(gpu, facts.reason));
      case "none":
        if (lastGpus.length > 0) return lastGpus.map((gpu) => ill(gpu, "nvidia-smi lists no GPU any more"));
        return virtualGpus({ hostname: host, ...cpuMemory }, options.overrides);
    }
  }

  return {
    async read(signal) {
      const [gpu, cpuMemory, disk, docker, system] = await Promise.all([
        attempt(probes.gpu, { kind: "broken", reason: "the probe failed" } as const, signal),
        attempt(probes.cpuMemory, { cpuModel: "", cpuCores: 1, memoryBytes: 0 }, signal),
        attempt(probes.disk, { diskTotalBytes: 0, diskFreeBytes: 0 }, signal),
        attempt(probes.docker, { dockerVersion: "", hasNvidiaRuntime: false }, signal),
        attempt(os, { os: process.platform }, signal),
      ]);
      const gpus = gpusOf(gpu, cpuMemory);
      const isNvidia = lastGpus.length > 0;
      const { cudaVersion } = isNvidia ? await attempt(driver, { cudaVersion: "" }, signal) : { cudaVersion: "" };
      if (isNvidia && docker.dockerVersion !== "" && !docker.hasNvidiaRuntime)
        tell("docker", "the Docker engine has no nvidia runtime: install the NVIDIA container toolkit to use the GPUs");
      return {
        ...system,
        ...cpuMemory,
        ...disk,
        gpus: [...gpus],
        drivers: [...(options.drivers ?? [...(docker.dockerVersion ? ["docker"] : []), "process", "external"])],
        dockerVersion: docker.dockerVersion,
        nvidiaDriverVersion: isNvidia ? lastDriverVersion : "",
        cudaVersion,
      };
    },
  };
}

function ill(gpu: FoundGpu, reason: string): FoundGpu {
  return { ...gpu, healthy: false, unhealthyReason: reason };
}

/** For what does not change while the agent runs. */
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
