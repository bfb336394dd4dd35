// Checks of this machine: system, GPUs and their driver, container engine, disk.
import { access, constants, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { allGpus } from "../../agent/fingerprint/all-gpus.ts";
import { type DockerFacts, dockerProbe } from "../../agent/fingerprint/docker.ts";
import type { GpuFacts } from "../../agent/fingerprint/gpu.ts";
import {
  type CpuMemoryFacts,
  cpuMemoryProbe,
  type OperatingSystemFacts,
  operatingSystemProbe,
} from "../../agent/fingerprint/host-parts.ts";
import type { Probe } from "../../agent/fingerprint/probe.ts";
import { type Finding, failure, ok, warning } from "./finding.ts";

export interface MachineFacts {
  readonly nodeVersion: string;
  readonly platform: string;
  readonly system: () => Promise<OperatingSystemFacts>;
  readonly processor: () => Promise<CpuMemoryFacts>;
  readonly gpus: () => Promise<GpuFacts>;
  /** NVIDIA display devices on the PCI bus. */
  readonly nvidiaDevices: () => Promise<number>;
  readonly docker: () => Promise<DockerFacts>;
  /** A Docker socket exists that this user may not open. */
  readonly isDockerDenied: () => Promise<boolean>;
}

const probeLimitMs = 20_000;
const gib = 1024 ** 3;
const dockerSocket = "/var/run/docker.sock";

export function machineFacts(): MachineFacts {
  const read =
    <Facts>(probe: Probe<Facts>) =>
    () =>
      probe.read(AbortSignal.timeout(probeLimitMs));
  return {
    nodeVersion: process.version,
    platform: process.platform,
    system: read(operatingSystemProbe()),
    processor: read(cpuMemoryProbe()),
    gpus: read(allGpus().probe),
    nvidiaDevices: () => nvidiaDevicesIn("/sys/bus/pci/devices"),
    docker: read(dockerProbe(dockerSocket)),
    isDockerDenied: () =>
      access(dockerSocket, constants.R_OK | constants.W_OK).then(
        () => false,
        ({ code }: NodeJS.ErrnoException) => code === "EACCES" || code === "EPERM",
      ),
  };
}

/** Counts by vendor and class of each device; 0 where the kernel lists none. */
async function nvidiaDevicesIn(folder: string): Promise<number> {
  const devices = await readdir(folder).catch(() => []);
  const read = (device: string, file: string) => readFile(join(folder, device, file), "utf8").catch(() => "");
  const found = await Promise.all(
    devices.map(async (device) => [await read(device, "vendor"), await read(device, "class")] as const),
  );
  return found.filter(([vendor, kind]) => vendor.startsWith("0x10de") && kind.startsWith("0x03")).length;
}

export async function checkMachine(facts: MachineFacts): Promise<readonly Finding[]> {
  const gpus = facts.gpus().catch((error: Error): GpuFacts => ({ kind: "broken", reason: error.message }));
  return [
    await checkHost(facts),
    checkNode(facts.nodeVersion),
    ...(await checkGpus(await gpus, facts)),
    await checkDocker(facts, (await gpus).kind === "found"),
  ];
}

async function checkHost({ platform, system, processor }: MachineFacts): Promise<Finding> {
  const { cpuCores, memoryBytes } = await processor();
  const name = await system().then(
    ({ os }) => os,
    () => platform,
  );
  const text = `${name}, ${cpuCores} cores, ${(memoryBytes / gib).toFixed(1)} GiB memory`;
  if (platform === "linux" || platform === "darwin") return ok("host", text);
  return failure("host", text, "Stoker runs on Linux and macOS. On Windows use WSL.");
}

function checkNode(version: string): Finding {
  const major = Number(/^v(\d+)/.exec(version)?.[1]);
  if (major >= 24) return ok("node", `Node ${version}`);
  return failure("node", `Node ${version} is too old.`, "Run `npx stoker`, which brings Node 24.");
}

async function checkGpus(facts: GpuFacts, { nvidiaDevices }: MachineFacts): Promise<readonly Finding[]> {
  if (facts.kind === "broken")
    return [
      failure(
        "gpu",
        `A GPU cannot be read: ${facts.reason}`,
        "Make the tool of the driver list it (nvidia-smi, rocm-smi), by a restart or by installing the driver again.",
      ),
    ];
  if (facts.kind === "none") {
    const devices = await nvidiaDevices();
    if (devices === 0) return [ok("gpu", "No GPU. Small models run on the processor.")];
    return [
      failure(
        "driver",
        `${devices} NVIDIA GPUs are on the bus, but their driver does not list them.`,
        "Install the NVIDIA driver with nvidia-smi, then restart the machine.",
      ),
    ];
  }
  const types = [...Map.groupBy(facts.gpus, ({ type }) => type)].map(([type, ones]) => `${ones.length} x ${type}`);
  const version = facts.driverVersion && `driver ${facts.driverVersion}`;
  const cuda = facts.cudaVersion && `CUDA ${facts.cudaVersion}`;
  const unhealthy = facts.gpus.filter(({ unhealthyReason }) => unhealthyReason !== "");
  return [
    ok("gpu", [types.join(", "), version, cuda].filter((text) => text !== "").join(", ")),
    ...unhealthy.map(({ index, uuid, unhealthyReason }) =>
      failure(
        "gpu",
        `GPU ${index} ${uuid}: ${unhealthyReason}`,
        "Reset or reseat the GPU, then return it to use: stoker node uncordon NODE --gpu UUID",
      ),
    ),
    ...[...(facts.broken ?? [])].map(([vendor, reason]) =>
      failure("gpu", `GPUs of ${vendor} cannot be read: ${reason}`, "Repair the driver or its tool."),
    ),
  ];
}

async function checkDocker({ docker, isDockerDenied }: MachineFacts, hasGpus: boolean): Promise<Finding> {
  const install = "Install Docker Engine 28 or later, and on NVIDIA hosts the NVIDIA Container Toolkit.";
  let found: DockerFacts;
  try {
    found = await docker();
  } catch (error) {
    return failure("containers", (error as Error).message, "Restart the engine: systemctl restart docker");
  }
  const { dockerVersion, hasNvidiaRuntime, cdiDevices } = found;
  if (dockerVersion === "") {
    if (await isDockerDenied())
      return warning(
        "containers",
        `This user may not use the Docker engine at ${dockerSocket}.`,
        "Add the user to the group docker and sign in again, or run this command as root.",
      );
    if (!hasGpus) return ok("containers", "No Docker engine. Model servers run as processes, for development.");
    return warning("containers", "No Docker engine. Model servers run as processes, for development.", install);
  }
  if (hasGpus && !hasNvidiaRuntime && cdiDevices.length === 0)
    return failure(
      "containers",
      `Docker ${dockerVersion} gives its containers no GPU.`,
      "Install the NVIDIA Container Toolkit, then: nvidia-ctk runtime configure --runtime=docker && systemctl restart docker",
    );
  return ok("containers", `Docker ${dockerVersion}${hasNvidiaRuntime ? " with GPUs" : ""}`);
}

/** Free space and free inodes of a file system. */
export interface DiskSpace {
  readonly folder: string;
  readonly totalBytes: number;
  readonly freeBytes: number;
  /** Undefined: the file system has no fixed number. */
  readonly freeInodes: number | undefined;
}

/** `up` itself needs this much to start. */
const minFreeBytes = 500e6;

export function checkDisk({ folder, totalBytes, freeBytes, freeInodes }: DiskSpace): Finding {
  const text = `${(freeBytes / gib).toFixed(1)} of ${(totalBytes / gib).toFixed(1)} GiB free at ${folder}`;
  const fix = `Free space at ${folder}, or move the data folder to a larger disk.`;
  if (freeInodes === 0) return failure("disk", `No free inodes at ${folder}.`, "Remove files that are not needed.");
  if (freeBytes < minFreeBytes) return failure("disk", text, fix);
  if (freeBytes < totalBytes / 10) return warning("disk", text, fix);
  return ok("disk", text);
}
