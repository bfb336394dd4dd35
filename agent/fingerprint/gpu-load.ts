// Current load of the GPUs. Fields that the driver does not report are absent.
import type { GpuLoad } from "../../proto/gen/stoker/fleet/v1/GpuLoad.ts";
import { isSplit, type MigSlice, migSlices, parseReport } from "./nvidia-report.ts";
import { createNvidiaSmi, type NvidiaSmi, numberIn, type Row } from "./nvidia-smi.ts";
import type { Probe } from "./probe.ts";

interface GpuProcess {
  readonly pid: number;
  readonly name: string;
  readonly memoryBytes: number;
}

export interface GpuSample {
  readonly uuid: string;
  /** Figures of a MIG slice, for which the driver reports only memory; its index is that of this GPU. */
  readonly parentUuid?: string;
  readonly index: number;
  readonly pciBusId: string;
  readonly name: string;
  readonly driverVersion: string;
  readonly utilizationRatio?: number;
  readonly memoryUtilizationRatio?: number;
  readonly memoryUsedBytes?: number;
  readonly memoryFreeBytes?: number;
  readonly memoryReservedBytes?: number;
  readonly memoryTotalBytes?: number;
  readonly temperatureCelsius?: number;
  readonly memoryTemperatureCelsius?: number;
  readonly powerWatts?: number;
  readonly powerLimitWatts?: number;
  readonly smClockHertz?: number;
  readonly memoryClockHertz?: number;
  readonly eccUncorrected?: number;
  readonly remappedRows?: number;
  readonly rowRemapFailure?: number;
  readonly processes: readonly GpuProcess[];
}

const mib = 1024 * 1024;
const numbers = {
  utilizationRatio: ["utilization.gpu", 0.01],
  memoryUtilizationRatio: ["utilization.memory", 0.01],
  memoryUsedBytes: ["memory.used", mib],
  memoryFreeBytes: ["memory.free", mib],
  memoryReservedBytes: ["memory.reserved", mib],
  memoryTotalBytes: ["memory.total", mib],
  temperatureCelsius: ["temperature.gpu", 1],
  memoryTemperatureCelsius: ["temperature.memory", 1],
  powerWatts: ["power.draw", 1],
  powerLimitWatts: ["power.limit", 1],
  smClockHertz: ["clocks.sm", 1e6],
  memoryClockHertz: ["clocks.mem", 1e6],
  eccUncorrected: ["ecc.errors.uncorrected.volatile.total", 1],
  remappedRows: ["remapped_rows.uncorrectable", 1],
} as const satisfies Partial<Record<keyof GpuSample, readonly [string, number]>>;

const fields = [
  "index",
  "uuid",
  "pci.bus_id",
  "name",
  "driver_version",
  "remapped_rows.failure",
  "mig.mode.current",
  ...Object.values(numbers).map(([field]) => field),
];
const processFields = ["gpu_uuid", "pid", "used_memory", "process_name"];

/** Empty where there is no nvidia-smi. Throws when it does not answer. */
export function gpuLoadProbe(tool?: string): Probe<readonly GpuSample[]> {
  const smi = createNvidiaSmi(tool);
  return {
    name: "gpu-load",
    async read(signal) {
      const gpus = await smi.gpus(fields, signal);
      if (gpus.kind === "missing") return [];
      if (gpus.kind === "failed") throw new Error(`nvidia-smi: ${gpus.reason}`);
      const known = gpus.rows.filter((row) => /^GPU-/.test(row["uuid"] ?? ""));
      if (known.length === 0) return [];
      const processes = await smi.processes(processFields, signal);
      const running = Map.groupBy(processes.kind === "ok" ? processes.rows : [], (row) => row["gpu_uuid"] ?? "");
      const slices = known.some(isSplit) ? await slicesOf(smi, signal) : undefined;
      return known.flatMap((row) => {
        const gpu = sampleOf(row, running.get(row["uuid"] ?? "") ?? []);
        return [gpu, ...(slices?.get(gpu.uuid) ?? []).map((slice) => sampleOfSlice(gpu, slice))];
      });
    },
  };
}

async function slicesOf(smi: NvidiaSmi, signal: AbortSignal) {
  const end = await smi.report(signal);
  return migSlices(smi, end.kind === "ok" ? parseReport(end.output) : undefined, signal);
}

function sampleOfSlice(gpu: GpuSample, slice: MigSlice): GpuSample {
  const { memoryBytes: memoryTotalBytes, memoryUsedBytes } = slice;
  return {
    uuid: slice.uuid,
    parentUuid: gpu.uuid,
    index: gpu.index,
    pciBusId: gpu.pciBusId,
    name: `${gpu.name} MIG ${slice.profile}`,
    driverVersion: gpu.driverVersion,
    memoryTotalBytes,
    ...(memoryUsedBytes === undefined
      ? {}
      : { memoryUsedBytes, memoryFreeBytes: Math.max(0, memoryTotalBytes - memoryUsedBytes) }),
    processes: slice.processes,
  };
}

function sampleOf(row: Row, processes: readonly Row[]): GpuSample {
  const reported = Object.entries(numbers).flatMap(([key, [field, unit]]) => {
    const value = numberIn(row, field);
    return value === undefined ? [] : [[key, value * unit] as const];
  });
  const remap = row["remapped_rows.failure"];
  return {
    uuid: row["uuid"] ?? "",
    index: Number(row["index"] ?? 0),
    pciBusId: row["pci.bus_id"] ?? "",
    name: row["name"] ?? "",
    driverVersion: row["driver_version"] ?? "",
    ...Object.fromEntries(reported),
    ...(remap === undefined ? {} : { rowRemapFailure: /^(yes|1)$/i.test(remap) ? 1 : 0 }),
    processes: processes.map((one) => ({
      pid: Number(one["pid"] ?? 0),
      name: one["process_name"] ?? "",
      memoryBytes: (numberIn(one, "used_memory") ?? 0) * mib,
    })),
  };
}

/** As the host report has it. `ownerOf`: the instance whose process this is; empty for another's. */
export function writeGpuLoad(sample: GpuSample, ownerOf: (pid: number) => string): GpuLoad {
  const { utilizationRatio, memoryUsedBytes, memoryTotalBytes, temperatureCelsius } = sample;
  const { powerWatts, powerLimitWatts, smClockHertz } = sample;
  const reported = {
    utilizationRatio,
    memoryUsedBytes,
    memoryTotalBytes,
    temperatureCelsius,
    powerWatts,
    powerLimitWatts,
  };
  return {
    uuid: sample.uuid,
    ...Object.fromEntries(Object.entries({ ...reported, smClockHertz }).filter(([, value]) => value !== undefined)),
    processes: sample.processes.slice(0, 64).map((one) => ({
      pid: one.pid,
      name: one.name.slice(0, 128),
      memoryBytes: one.memoryBytes,
      instanceId: ownerOf(one.pid),
    })),
  };
}
