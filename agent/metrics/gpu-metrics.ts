// GPU metrics: our own names in base units, and optionally those of the DCGM exporter for existing dashboards. A field that the
// driver does not report has no series. Values come from the last sample.
import { Gauge, type Registry } from "prom-client";
import type { GpuSample } from "../fingerprint/gpu-load.ts";

export type GpuMetricNames = "native" | "dcgm" | "off";

export interface GpuFacts {
  readonly samples: readonly GpuSample[];
  readonly ageSeconds: number | undefined;
  /** GPUs of the inventory, also those that are not sampled. */
  readonly known: readonly { readonly uuid: string; readonly index: number; readonly healthy: boolean }[];
  readonly lastXids: ReadonlyMap<string, number>;
  readonly allocated: readonly { readonly uuid: string; readonly deployId: string }[];
  readonly node: string;
  /** The DCGM exporter itself runs here: its names are its own. */
  readonly hasDcgmExporter: boolean;
}

const mib = 1024 * 1024;
type Read = (sample: GpuSample) => number | undefined;

const native: readonly (readonly [name: string, help: string, read: Read])[] = [
  ["utilization_ratio", "Share of the time in which a kernel ran", (s) => s.utilizationRatio],
  ["memory_used_bytes", "Memory in use", (s) => s.memoryUsedBytes],
  ["memory_free_bytes", "Memory that is free", (s) => s.memoryFreeBytes],
  ["memory_total_bytes", "All its memory", (s) => s.memoryTotalBytes],
  ["temperature_celsius", "Temperature of the processor", (s) => s.temperatureCelsius],
  ["memory_temperature_celsius", "Temperature of the memory", (s) => s.memoryTemperatureCelsius],
  ["power_watts", "Power drawn", (s) => s.powerWatts],
  ["power_limit_watts", "Power it may draw", (s) => s.powerLimitWatts],
  ["sm_clock_hertz", "Clock of the multiprocessors", (s) => s.smClockHertz],
  ["memory_clock_hertz", "Clock of the memory", (s) => s.memoryClockHertz],
  ["ecc_uncorrected_errors", "Uncorrected memory errors since the driver started", (s) => s.eccUncorrected],
];

const scaled = (value: number | undefined, by: number) => (value === undefined ? undefined : Math.round(value * by));
const dcgm: readonly (readonly [name: string, help: string, read: Read])[] = [
  ["GPU_UTIL", "GPU utilization (in %)", (s) => scaled(s.utilizationRatio, 100)],
  ["MEM_COPY_UTIL", "Memory utilization (in %)", (s) => scaled(s.memoryUtilizationRatio, 100)],
  ["FB_USED", "Framebuffer memory used (in MiB)", (s) => scaled(s.memoryUsedBytes, 1 / mib)],
  ["FB_FREE", "Framebuffer memory free (in MiB)", (s) => scaled(s.memoryFreeBytes, 1 / mib)],
  ["FB_RESERVED", "Framebuffer memory reserved (in MiB)", (s) => scaled(s.memoryReservedBytes, 1 / mib)],
  ["GPU_TEMP", "GPU temperature (in C)", (s) => s.temperatureCelsius],
  ["MEMORY_TEMP", "Memory temperature (in C)", (s) => s.memoryTemperatureCelsius],
  ["POWER_USAGE", "Power draw (in W)", (s) => s.powerWatts],
  ["SM_CLOCK", "SM clock frequency (in MHz)", (s) => scaled(s.smClockHertz, 1e-6)],
  ["MEM_CLOCK", "Memory clock frequency (in MHz)", (s) => scaled(s.memoryClockHertz, 1e-6)],
  ["ECC_DBE_VOL_TOTAL", "Double-bit volatile ECC errors", (s) => s.eccUncorrected],
  ["UNCORRECTABLE_REMAPPED_ROWS", "Rows remapped for uncorrectable errors", (s) => s.remappedRows],
  ["ROW_REMAP_FAILURE", "Whether remapping of rows has failed", (s) => s.rowRemapFailure],
];
const dcgmLabels = ["gpu", "UUID", "pci_bus_id", "device", "modelName", "hostname", "DCGM_FI_DRIVER_VERSION"] as const;

export function addGpuMetrics(registry: Registry, names: GpuMetricNames, facts: () => GpuFacts | undefined): void {
  const registers = [registry];
  const gauge = <Label extends string>(
    name: string,
    help: string,
    labelNames: readonly Label[],
    series: (facts: GpuFacts) => Iterable<readonly [labels: Record<Label, string | number>, value: number]>,
  ) =>
    new Gauge<Label>({
      name,
      help,
      registers,
      labelNames,
      collect() {
        this.reset();
        const now = facts();
        if (now) for (const [labels, value] of series(now)) this.set(labels, value);
      },
    });
  const sampled = (read: Read) =>
    function* (now: GpuFacts): Generator<readonly [Record<"gpu" | "UUID", string | number>, number]> {
      for (const sample of now.samples) {
        const value = read(sample);
        if (value !== undefined) yield [{ gpu: sample.index, UUID: sample.uuid }, value];
      }
    };

  gauge("stoker_gpu_healthy", "1 for a GPU that instances may be placed on", ["gpu", "UUID"], ({ known }) =>
    known.map((gpu) => [{ gpu: gpu.index, UUID: gpu.uuid }, Number(gpu.healthy)] as const),
  );
  gauge("stoker_gpu_allocated", "1 for the deployment that a GPU is given to", ["gpu", "UUID", "deploy_id"], (now) =>
    now.allocated.map(({ uuid, deployId }) => {
      const index = now.known.find((gpu) => gpu.uuid === uuid)?.index ?? "";
      return [{ gpu: index, UUID: uuid, deploy_id: deployId }, 1] as const;
    }),
  );
  gauge("stoker_gpu_sample_age_seconds", "Since the figures of the GPUs were read", [], ({ ageSeconds }) =>
    ageSeconds === undefined ? [] : [[{}, ageSeconds] as const],
  );
  if (names === "off") return;
  for (const [name, help, read] of native) gauge(`stoker_gpu_${name}`, help, ["gpu", "UUID"], sampled(read));
  gauge(
    "stoker_gpu_last_xid",
    "Code of the last Xid error; absent without one",
    ["gpu", "UUID"],
    ({ known, lastXids }) =>
      known.flatMap((gpu) => {
        const code = lastXids.get(gpu.uuid);
        return code === undefined ? [] : [[{ gpu: gpu.index, UUID: gpu.uuid }, code] as const];
      }),
  );
  if (names === "native") return;
  const dcgmSeries = (read: (sample: GpuSample, now: GpuFacts) => number | undefined) =>
    function* (now: GpuFacts): Generator<readonly [Record<(typeof dcgmLabels)[number], string | number>, number]> {
      if (now.hasDcgmExporter) return;
      for (const sample of now.samples) {
        // The exporter has other labels for slices, and figures that nvidia-smi does not report.
        if (sample.parentUuid !== undefined) continue;
        const value = read(sample, now);
        if (value !== undefined) yield [dcgmLabelsOf(sample, now.node), value];
      }
    };
  for (const [name, help, read] of dcgm) gauge(`DCGM_FI_DEV_${name}`, help, dcgmLabels, dcgmSeries(read));
  gauge(
    "DCGM_FI_DEV_XID_ERRORS",
    "Value of the last XID error encountered",
    dcgmLabels,
    dcgmSeries((sample, now) => now.lastXids.get(sample.uuid) ?? 0),
  );
}

const dcgmLabelsOf = (sample: GpuSample, node: string) => ({
  gpu: sample.index,
  UUID: sample.uuid,
  pci_bus_id: sample.pciBusId,
  device: `nvidia${sample.index}`,
  modelName: sample.name,
  hostname: node,
  DCGM_FI_DRIVER_VERSION: sample.driverVersion,
});
