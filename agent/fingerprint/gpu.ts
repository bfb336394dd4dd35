// NVIDIA GPUs as nvidia-smi lists them. It may be missing, hang, fail with exit 9 or answer [N/A]: each is told apart,
// because a host whose driver broke must not be taken for a host without GPUs.
import { readdir } from "node:fs/promises";
import type { Gpu } from "../../proto/gen/stoker/fleet/v1/Gpu.ts";
import { gpuTypeOf } from "./gpu-type.ts";
import type { Probe } from "./probe.ts";
import { runTool } from "./run-tool.ts";

export type FoundGpu = Required<Gpu> & { readonly memoryBytes: number };

export type GpuFacts =
  | { readonly kind: "none" }
  | { readonly kind: "found"; readonly gpus: readonly FoundGpu[]; readonly driverVersion: string }
  /** The machine has NVIDIA devices and they cannot be asked. */
  | { readonly kind: "broken"; readonly reason: string };

const fields = ["index", "uuid", "name", "memory.total", "driver_version", "ecc.errors.uncorrected.volatile.total"];
const limitMs = 5000;
const mib = 1024 * 1024;

export interface GpuProbeOptions {
  readonly nvidiaSmi?: string;
  /** Where the kernel driver lists its devices. */
  readonly driverFolder?: string;
}

export function gpuProbe(options: GpuProbeOptions = {}): Probe<GpuFacts> {
  const tool = options.nvidiaSmi ?? "nvidia-smi";
  const folder = options.driverFolder ?? "/proc/driver/nvidia/gpus";
  return {
    name: "gpu",
    async read(signal) {
      const args = [`--query-gpu=${fields.join(",")}`, "--format=csv,noheader,nounits"];
      const end = await runTool(tool, args, limitMs, signal);
      switch (end.kind) {
        case "missing":
          return { kind: "none" };
        case "ok": {
          const found = parseNvidiaSmi(end.output);
          return found.gpus.length > 0 ? { kind: "found", ...found } : { kind: "none" };
        }
        case "failed": {
          // The tool is often installed where no NVIDIA device is.
          const devices = await readdir(folder).catch(() => []);
          return devices.length > 0 ? { kind: "broken", reason: `nvidia-smi: ${end.reason}` } : { kind: "none" };
        }
      }
    },
  };
}

/** Lines of `--format=csv,noheader,nounits`; memory in MiB. A line that is no GPU is left out. */
export function parseNvidiaSmi(csv: string): { gpus: FoundGpu[]; driverVersion: string } {
  let driverVersion = "";
  const gpus = csv.split("\n").flatMap((line) => {
    const [index = "", uuid = "", name = "", memory = "", driver = "", ecc = ""] = line
      .split(",")
      .map((cell) => cell.trim());
    if (!/^\d+$/.test(index) || !/^(GPU|MIG)-[\w/-]+$/.test(uuid)) return [];
    if (/^\d/.test(driver)) driverVersion = driver;
    const memoryBytes = /^\d+$/.test(memory) ? Number(memory) * mib : 0;
    const fault = faultOf(memoryBytes, ecc);
    const type = gpuTypeOf(name, memoryBytes);
    return [{ uuid, index: Number(index), type, name, memoryBytes, healthy: fault === "", unhealthyReason: fault }];
  });
  return { gpus, driverVersion };
}

/** A field that reads [N/A] or [Not Supported] says nothing; a count of errors does. */
function faultOf(memoryBytes: number, uncorrectedErrors: string): string {
  if (memoryBytes === 0) return "nvidia-smi does not tell its memory";
  if (/^[1-9]\d*$/.test(uncorrectedErrors))
    return `${uncorrectedErrors} uncorrected memory errors since the driver started`;
  return "";
}
