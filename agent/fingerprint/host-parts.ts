// Cores, file systems and network interfaces, as systeminformation finds them.

import { arch, availableParallelism, cpus, release, totalmem } from "node:os";
import { Worker } from "node:worker_threads";
import type { Systeminformation } from "systeminformation";
import { diskSpace } from "../../proto/disk-space.ts";
import type { Disk } from "../../proto/gen/stoker/fleet/v1/Disk.ts";
import type { NetworkInterface } from "../../proto/gen/stoker/fleet/v1/NetworkInterface.ts";
import type { Probe } from "./probe.ts";

export interface HostParts {
  readonly cpuPhysicalCores: number;
  readonly disks: readonly Disk[];
  readonly networks: readonly NetworkInterface[];
}

/** Bridges and pairs that container engines make come and go; they are no part of the host. */
const madeByEngines = /^(lo$|docker|br-|veth|virbr|cni|flannel|cali)/;
const max = 16;
/** Finding them starts a dozen tools; what moves faster, the data folder's disk, has a probe of its own. */
const keptMs = 600_000;

export function hostPartsProbe(nowMs = () => performance.now()): Probe<HostParts> {
  let known: HostParts | undefined;
  let readMs = 0;
  return {
    name: "host-parts",
    async read(signal) {
      if (known && nowMs() - readMs < keptMs) return known;
      const { cpu, disks, networks } = await askSystem("parts", signal);
      readMs = nowMs();
      known = {
        cpuPhysicalCores: cpu.physicalCores,
        disks: disks
          .filter(({ size, rw, type }) => size > 0 && rw !== false && !/^(tmpfs|overlay|squashfs)$/.test(type))
          .slice(0, max)
          .map((one) => ({ mount: one.mount, type: one.type, totalBytes: one.size, freeBytes: one.available })),
        networks: networks
          .filter(({ iface, internal, operstate }) => !internal && operstate !== "down" && !madeByEngines.test(iface))
          .slice(0, max)
          .map((one) => ({
            name: one.iface,
            addresses: [one.ip4, one.ip6].filter((address) => address !== ""),
            speedBitsPerSecond: Math.max(0, Math.round((one.speed ?? 0) * 1e6)),
          })),
      };
      return known;
    },
  };
}

export interface SystemAnswers {
  readonly os: Systeminformation.OsData;
  readonly parts: {
    readonly cpu: Systeminformation.CpuData;
    readonly disks: Systeminformation.FsSizeData[];
    readonly networks: Systeminformation.NetworkInterfacesData[];
  };
}

/** Off the agent's own thread. Rejects with the signal's reason, or with what went wrong. */
function askSystem<Question extends keyof SystemAnswers>(
  question: Question,
  signal: AbortSignal,
): Promise<SystemAnswers[Question]> {
  signal.throwIfAborted();
  const worker = new Worker(new URL("./system-worker.ts", import.meta.url), { workerData: question });
  worker.unref();
  return new Promise<SystemAnswers[Question]>((resolve, reject) => {
    worker.once("message", resolve);
    worker.once("error", reject);
    worker.once("exit", () => reject(new Error("systeminformation gave no answer")));
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  }).finally(() => void worker.terminate());
}

export interface CpuMemoryFacts {
  readonly cpuModel: string;
  readonly cpuCores: number;
  readonly memoryBytes: number;
}

export function cpuMemoryProbe(): Probe<CpuMemoryFacts> {
  return {
    name: "cpu-memory",
    async read() {
      // An agent inside a container offers what the container was given, not what the machine has.
      const limit = process.constrainedMemory();
      const memoryBytes = limit > 0 ? Math.min(limit, totalmem()) : totalmem();
      return { cpuModel: cpus()[0]?.model.trim() ?? "", cpuCores: availableParallelism(), memoryBytes };
    },
  };
}

/** The whole machine, whatever this process may use of it. */
export function machineProbe(): Probe<CpuMemoryFacts> {
  return {
    name: "cpu-memory",
    read: async () => ({ cpuModel: cpus()[0]?.model.trim() ?? "", cpuCores: cpus().length, memoryBytes: totalmem() }),
  };
}

export interface DiskFacts {
  readonly diskTotalBytes: number;
  readonly diskFreeBytes: number;
}

export function diskProbe(folder: string): Probe<DiskFacts> {
  return {
    name: "disk",
    async read() {
      const { totalBytes, freeBytes } = await diskSpace(folder);
      return { diskTotalBytes: totalBytes, diskFreeBytes: freeBytes };
    },
  };
}

export interface OperatingSystemFacts {
  /** E.g. `Debian GNU/Linux 12 (6.1.0-30-amd64, x64)`. */
  readonly os: string;
}

export function operatingSystemProbe(): Probe<OperatingSystemFacts> {
  return {
    name: "operating-system",
    async read(signal) {
      const { distro, release: version } = await askSystem("os", signal);
      return { os: `${distro} ${version} (${release()}, ${arch()})`.trim() };
    },
  };
}
