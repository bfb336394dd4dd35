import { type GpuType, sizedGpuTypes } from "../../proto/gpu.ts";

const names: Readonly<Record<(typeof sizedGpuTypes)[number], RegExp>> = {
  "B300-270GB": /\bG?B300\b/i,
  "B200-180GB": /\bG?B200\b/i,
  "H200-141GB": /\bH200\b/i,
  "H100-80GB": /\bH100\b/i,
  "A100-80GB": /\bA100\b/i,
  "L40S-48GB": /\bL40S\b/i,
  "L4-24GB": /\bL4\b/i,
  "RTXPRO6000-96GB": /\bRTX PRO 6000\b/i,
};

/** By product name and memory: a name alone would sell a 40 GB A100 as one of 80 GB. */
export function gpuTypeOf(name: string, memoryBytes: number): GpuType {
  const type = sizedGpuTypes.find((one) => names[one].test(name));
  if (type === undefined) return "other";
  const nominalBytes = Number(/-(\d+)GB$/.exec(type)?.[1]) * 1e9;
  // Drivers keep a few per cent for themselves.
  return memoryBytes >= nominalBytes * 0.9 ? type : "other";
}
