// Facts that only the long report of nvidia-smi contains: the CUDA version, and the slices of a GPU in MIG mode.

import type { NvidiaSmi, Row } from "./nvidia-smi.ts";
import { childrenOf, type Element, parseXml, textAt } from "./xml.ts";

interface NvidiaReport {
  /** The newest CUDA the driver serves; empty when it does not say. */
  readonly cudaVersion: string;
  readonly migDevices: ReadonlyMap<string, readonly MigDevice[]>;
}

interface MigDevice {
  /** Among the slices of its GPU, as `nvidia-smi -L` counts them. */
  readonly index: number;
  readonly memoryBytes: number;
  readonly memoryUsedBytes: number | undefined;
  readonly processes: readonly MigProcess[];
}

/** Process that holds memory of the slice; 0 bytes if the driver does not report the amount. */
interface MigProcess {
  readonly pid: number;
  readonly name: string;
  readonly memoryBytes: number;
}

/** Undefined when this is no such report. */
export function parseReport(xml: string): NvidiaReport | undefined {
  const root = parseXml(xml);
  if (root?.name !== "nvidia_smi_log") return undefined;
  const gpus = childrenOf(root, "gpu").map((gpu) => [textAt(gpu, "uuid") ?? "", migDevicesOf(gpu)] as const);
  return { cudaVersion: textAt(root, "cuda_version") ?? "", migDevices: new Map(gpus) };
}

function migDevicesOf(gpu: Element): readonly MigDevice[] {
  const list = gpu.children.find((child) => child.name === "mig_devices");
  return childrenOf(list ?? gpu, "mig_device").flatMap((device) => {
    const index = textAt(device, "index");
    const memoryBytes = bytesIn(textAt(device, "fb_memory_usage", "total"));
    if (index === undefined || memoryBytes === undefined) return [];
    const memoryUsedBytes = bytesIn(textAt(device, "fb_memory_usage", "used"));
    return [{ index: Number(index), memoryBytes, memoryUsedBytes, processes: processesIn(gpu, device) }];
  });
}

/** The report lists the processes of all slices with the GPU; its two numbers name the slice. */
function processesIn(gpu: Element, device: Element): readonly MigProcess[] {
  const list = gpu.children.find((child) => child.name === "processes");
  const isHere = (one: Element) =>
    ["gpu_instance_id", "compute_instance_id"].every((name) => textAt(one, name) === textAt(device, name));
  return childrenOf(list ?? gpu, "process_info")
    .filter(isHere)
    .map((one) => ({
      pid: Number(textAt(one, "pid") ?? 0),
      name: textAt(one, "process_name") ?? "",
      memoryBytes: bytesIn(textAt(one, "used_memory")) ?? 0,
    }));
}

function bytesIn(text: string | undefined): number | undefined {
  const mib = /^(\d+) MiB$/.exec(text ?? "")?.[1];
  return mib === undefined ? undefined : Number(mib) * 1024 * 1024;
}

interface MigName {
  readonly index: number;
  readonly uuid: string;
  /** e.g. 3g.40gb */
  readonly profile: string;
}

/** The slices in the answer of `nvidia-smi -L`, by uuid of their GPU. */
export function parseList(text: string): ReadonlyMap<string, readonly MigName[]> {
  const byGpu = new Map<string, MigName[]>();
  let current: MigName[] | undefined;
  for (const line of text.split("\n")) {
    const gpu = /^GPU \d+: .*\(UUID: (GPU-[\w-]+)\)/.exec(line)?.[1];
    if (gpu !== undefined) {
      current = [];
      byGpu.set(gpu, current);
    }
    const slice = /^\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[\w/-]+)\)/.exec(line);
    if (slice) current?.push({ profile: slice[1] ?? "", index: Number(slice[2]), uuid: slice[3] ?? "" });
  }
  return byGpu;
}

export type MigSlice = MigDevice & MigName;

/** True for a GPU in MIG mode. The row must contain `mig.mode.current`. */
export const isSplit = (row: Row): boolean => row["mig.mode.current"] === "Enabled";

/** By uuid of the GPU; without those that one of both answers leaves out. */
export async function migSlices(
  smi: NvidiaSmi,
  report: NvidiaReport | undefined,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, readonly MigSlice[]>> {
  const list = await smi.list(signal);
  const names = parseList(list.kind === "ok" ? list.output : "");
  const found = [...(report?.migDevices ?? [])].map(([gpu, devices]) => {
    const slices = devices.flatMap((device) => {
      const name = names.get(gpu)?.find((one) => one.index === device.index);
      return name ? [{ ...device, ...name }] : [];
    });
    return [gpu, slices] as const;
  });
  return new Map(found);
}
