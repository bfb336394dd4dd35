// GPUs of every maker behind one probe, and the ways to give each to an instance. A tool that is not installed costs nothing.
import { readdir, readFile, readlink, stat } from "node:fs/promises";
import { hostname, totalmem } from "node:os";
import { basename, join } from "node:path";
import type { GpuAccess, GpuVendor } from "../../proto/gpu-vendors.ts";
import { type GpuFacts, gpuProbe } from "./gpu.ts";
import { type GpuSample, gpuLoadProbe } from "./gpu-load.ts";
import type { Probe } from "./probe.ts";
import { runTool } from "./run-tool.ts";
import { amdVendor } from "./vendors/amd.ts";
import { appleVendor } from "./vendors/apple.ts";
import { ascendVendor } from "./vendors/ascend.ts";
import { intelVendor } from "./vendors/intel.ts";
import type { RunVendorTool, Vendor, VendorGpu } from "./vendors/vendor.ts";

const limitMs = 5_000;

interface VendorOptions {
  readonly run?: RunVendorTool;
  readonly host?: string;
  readonly platform?: string;
  /** Folder in which the kernel lists render nodes. */
  readonly drm?: string;
}

/** Makers besides NVIDIA, whose probe is older and knows more. */
export function otherVendors(options: VendorOptions = {}): readonly Vendor[] {
  const { host = hostname(), platform = process.platform, drm = "/sys/class/drm" } = options;
  const run: RunVendorTool = options.run ?? ((tool, args, signal) => runTool(tool, args, limitMs, signal));
  const nodes = () => renderNodesOf(drm);
  return [
    amdVendor(run, nodes),
    intelVendor(run, nodes, host),
    ascendVendor(run, host),
    appleVendor(run, host, totalmem(), platform),
  ];
}

export interface AllGpus {
  readonly probe: Probe<GpuFacts>;
  /** As of the last reading; undefined: unknown. */
  accessOf(uuid: string): GpuAccess | undefined;
}

export function allGpus(nvidia: Probe<GpuFacts> = gpuProbe(), vendors = otherVendors()): AllGpus {
  const known = new Map<string, GpuAccess>();
  return {
    accessOf: (uuid) => known.get(uuid),
    probe: {
      name: nvidia.name,
      async read(signal) {
        const [first, ...answers] = await Promise.all([nvidia.read(signal), ...vendors.map((one) => one.read(signal))]);
        const broken = new Map<GpuVendor, string>(first?.kind === "found" ? first.broken : []);
        if (first?.kind === "broken") broken.set("nvidia", first.reason);
        for (const [at, one] of answers.entries())
          if (one.kind === "broken") broken.set((vendors[at] as Vendor).vendor, one.reason);
        const others = answers.flatMap((one) => (one.kind === "found" ? one.gpus : []));
        for (const { gpu, access } of others)
          known.set(gpu.uuid, { ...access, groups: await groupsOf(access.devices) });
        const own = first?.kind === "found" ? first : { gpus: [], driverVersion: "", cudaVersion: "" };
        for (const { uuid } of own.gpus) known.set(uuid, nvidiaAccess(uuid));
        const gpus = [...own.gpus, ...others.map(({ gpu }) => gpu)];
        if (gpus.length === 0)
          return broken.size === 0 ? { kind: "none" } : { kind: "broken", reason: [...broken.values()].join("; ") };
        return { ...own, kind: "found", gpus, broken };
      },
    },
  };
}

/** Load of the GPUs of every maker. Throws when NVIDIA's tool does not reply. */
export function allGpuLoads(vendors = otherVendors()): Probe<readonly GpuSample[]> {
  const nvidia = gpuLoadProbe();
  return {
    name: nvidia.name,
    async read(signal) {
      const answers = await Promise.all(vendors.map((one) => one.read(signal)));
      const others = answers.flatMap((one) =>
        one.kind === "found" ? one.gpus.map((gpu) => sampleOf(gpu, one.driverVersion)) : [],
      );
      return [...(await nvidia.read(signal)), ...others];
    },
  };
}

function sampleOf({ gpu, load = {} }: VendorGpu, driverVersion: string): GpuSample {
  const figures = Object.entries(load).filter(([, value]) => value !== undefined);
  return {
    uuid: gpu.uuid,
    index: gpu.index,
    pciBusId: gpu.pciBusId,
    name: gpu.name,
    driverVersion,
    memoryTotalBytes: gpu.memoryBytes,
    ...Object.fromEntries(figures),
    processes: [],
  };
}

function nvidiaAccess(uuid: string): GpuAccess {
  const visible = { variable: "CUDA_VISIBLE_DEVICES", value: uuid };
  return { vendor: "nvidia", cdi: [`nvidia.com/gpu=${uuid}`], devices: [], groups: [], libraries: [], visible };
}

/** Device files by PCI address, such as 0000:03:00.0 -> /dev/dri/renderD128. */
async function renderNodesOf(drm: string): Promise<ReadonlyMap<string, string>> {
  const names = (await readdir(drm).catch(() => [])).filter((name) => /^renderD\d+$/.test(name));
  const found = names.map(async (name) => {
    const link = await readlink(join(drm, name, "device")).catch(() => "");
    const event = await readFile(join(drm, name, "device", "uevent"), "utf8").catch(() => "");
    const address = /^PCI_SLOT_NAME=(.+)$/m.exec(event)?.[1] ?? basename(link);
    return address === "" ? [] : [[address.toLowerCase(), `/dev/dri/${name}`] as const];
  });
  return new Map((await Promise.all(found)).flat());
}

/** A container's user is in none of the host's groups. Root needs none. */
async function groupsOf(devices: readonly string[]): Promise<readonly number[]> {
  const found = devices.map((path) =>
    stat(path).then(
      ({ gid }) => gid,
      () => 0,
    ),
  );
  return [...new Set(await Promise.all(found))].filter((gid) => gid !== 0);
}
