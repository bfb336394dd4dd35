import { type GpuType, gpuTypes, isGpuType } from "../../proto/gpu.ts";
import { containerRefused } from "./errors.ts";

export interface GpuConfig {
  readonly count: number;
  readonly gpu: GpuType;
}

const maxGpus = 8;

/** Parses `8xB200-180GB`: whole GPUs of one type on one host. Throws containerRefused. */
export function parseGpuConfig(text: string): GpuConfig {
  const [, count = "", gpu = ""] = /^([1-9]\d{0,2})x(.+)$/.exec(text) ?? [];
  if (!isGpuType(gpu) || Number(count) > maxGpus)
    throw containerRefused(
      `gpu_config: ${text.slice(0, 40)} must be <count>x<type> with 1 to ${maxGpus} GPUs of ${gpuTypes.join(", ")}, such as 1xH100-80GB.`,
      { param: "gpu_config" },
    );
  return { count: Number(count), gpu };
}

export const writeGpuConfig = ({ count, gpu }: GpuConfig): string => `${count}x${gpu}`;
