// Lists NVIDIA GPUs with nvidia-smi. It may be missing, hang, fail with exit 9 or report [N/A]; each case is distinguished, so
// that a host with a broken driver is not treated as a host without GPUs.

import { readdir } from "node:fs/promises";
import type { Gpu } from "../../proto/gen/stoker/fleet/v1/Gpu.ts";
import { gpuTypeOf } from "../../proto/gpu.ts";
import type { GpuVendor } from "../../proto/gpu-vendors.ts";
import { memoryFault } from "./gpu-faults.ts";
import { isSplit, type MigSlice, migSlices, parseReport } from "./nvidia-report.ts";
import { createNvidiaSmi, type NvidiaSmi, numberIn, type Row } from "./nvidia-smi.ts";
import type { Probe } from "./probe.ts";

export type FoundGpu = Required<Gpu> & {
  readonly memoryBytes: number;
  readonly uuid: string;
  readonly pciBusId: string;
};

export type GpuFacts =
  | { readonly kind: "none" }
  | {
      readonly kind: "found";
      readonly gpus: readonly FoundGpu[];
      readonly driverVersion: string;
      /** The newest CUDA the driver serves; empty when it does not say. */
      readonly cudaVersion: string;
      /** Makers whose GPUs cannot be read now, with the reason. */
      readonly broken?: ReadonlyMap<GpuVendor, string>;
    }
  /** The machine has devices, and none can be read. */
  | { readonly kind: "broken"; readonly reason: string };

const fields = [
  "index",
  "uuid",
  "name",
  "memory.total",
  "driver_version",
  "pci.bus_id",
  "mig.mode.current",
  "compute_cap",
  "power.limit",
  "ecc.errors.uncorrected.volatile.total",
  "remapped_rows.failure",
];
const mib = 1024 * 1024;

interface GpuProbeOptions {
  readonly nvidiaSmi?: string;
  /** Folder in which the kernel driver lists its devices. */
  readonly driverFolder?: string;
  /** Boot id: error counters are reset with it. */
  readonly boot?: string;
}

export function gpuProbe(options: GpuProbeOptions = {}): Probe<GpuFacts> {
  const smi = createNvidiaSmi(options.nvidiaSmi);
  const folder = options.driverFolder ?? "/proc/driver/nvidia/gpus";
  return {
    name: "gpu",
    async read(signal) {
      const answer = await smi.gpus(fields, signal);
      switch (answer.kind) {
        case "missing":
          return { kind: "none" };
        case "ok": {
          const rows = answer.rows.filter(isGpu);
          if (rows.length === 0) return { kind: "none" };
          const { slices, cudaVersion } = await furtherFacts(smi, rows, signal);
          const gpus = rows.flatMap((row) => gpusOf(row, slices.get(row["uuid"] ?? "") ?? [], options.boot ?? ""));
          const driverVersion = rows.find((row) => row["driver_version"])?.["driver_version"] ?? "";
          return { kind: "found", gpus, driverVersion, cudaVersion };
        }
        case "failed": {
          // The tool is often installed where no NVIDIA device is.
          const devices = await readdir(folder).catch(() => []);
          return devices.length > 0 ? { kind: "broken", reason: `nvidia-smi: ${answer.reason}` } : { kind: "none" };
        }
      }
    },
  };
}

/** Optional facts: a failure leaves them empty. */
async function furtherFacts(smi: NvidiaSmi, rows: readonly Row[], signal: AbortSignal) {
  const end = await smi.report(signal);
  const report = end.kind === "ok" ? parseReport(end.output) : undefined;
  const slices = rows.some(isSplit) ? await migSlices(smi, report, signal) : new Map<string, readonly MigSlice[]>();
  return { slices, cudaVersion: report?.cudaVersion ?? "" };
}

const isGpu = (row: Row) => /^\d+$/.test(row["index"] ?? "") && /^GPU-[\w-]+$/.test(row["uuid"] ?? "");

/** Returns the GPU, or the slices it is split into: a split GPU cannot be assigned as a whole. */
function gpusOf(row: Row, slices: readonly MigSlice[], boot: string): FoundGpu[] {
  const name = row["name"] ?? "";
  const memoryBytes = (numberIn(row, "memory.total") ?? 0) * mib;
  const eccUncorrected = numberIn(row, "ecc.errors.uncorrected.volatile.total") ?? 0;
  const fault = memoryFault({ uncorrected: eccUncorrected, rowRemapFailure: row["remapped_rows.failure"] }, boot);
  const trouble = fault?.reason ?? missing(row, memoryBytes, slices);
  const uuid = row["uuid"] ?? "";
  const gpu: FoundGpu = {
    uuid,
    index: Number(row["index"]),
    type: gpuTypeOf({ uuid, name, memoryBytes }),
    name,
    memoryBytes,
    healthy: trouble === "",
    unhealthyReason: trouble,
    faultId: fault?.id ?? "",
    pciBusId: row["pci.bus_id"] ?? "",
    migProfile: "",
    parentUuid: "",
    computeCapability: row["compute_cap"] ?? "",
    powerLimitWatts: numberIn(row, "power.limit") ?? 0,
    eccUncorrected,
  };
  if (slices.length === 0) return [gpu];
  return slices.map((slice) => ({
    ...gpu,
    uuid: slice.uuid,
    // Named types are whole GPUs.
    type: "other",
    name: `${name} MIG ${slice.profile}`,
    memoryBytes: slice.memoryBytes,
    migProfile: slice.profile,
    parentUuid: gpu.uuid,
  }));
}

function missing(row: Row, memoryBytes: number, slices: readonly MigSlice[]): string {
  if (memoryBytes === 0) return "nvidia-smi does not report its memory";
  if (isSplit(row) && slices.length === 0)
    return "MIG mode is on and no slice was found: make MIG instances, or turn the mode off with nvidia-smi -mig 0";
  return "";
}
