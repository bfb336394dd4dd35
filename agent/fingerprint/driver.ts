import type { Probe } from "./probe.ts";
import { runTool } from "./run-tool.ts";

export interface DriverFacts {
  /** The newest CUDA the NVIDIA driver serves; empty without one. */
  readonly cudaVersion: string;
}

const limitMs = 5000;

/** nvidia-smi has no query field for it: it stands in the banner alone. */
export function driverProbe(nvidiaSmi = "nvidia-smi"): Probe<DriverFacts> {
  return {
    name: "driver",
    async read(signal) {
      const end = await runTool(nvidiaSmi, [], limitMs, signal);
      return { cudaVersion: end.kind === "ok" ? cudaVersionIn(end.output) : "" };
    },
  };
}

export function cudaVersionIn(banner: string): string {
  return /CUDA Version\s*:\s*(\d+(?:\.\d+)*)/i.exec(banner)?.[1] ?? "";
}
