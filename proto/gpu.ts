/** The contract's GPU types: eight sized ones in display order, and `other`. */
export const sizedGpuTypes = [
  "B300-270GB",
  "B200-180GB",
  "H200-141GB",
  "H100-80GB",
  "A100-80GB",
  "L40S-48GB",
  "L4-24GB",
  "RTXPRO6000-96GB",
] as const;
export const gpuTypes = [...sizedGpuTypes, "other"] as const;
export type GpuType = (typeof gpuTypes)[number];

export function isGpuType(text: string): text is GpuType {
  return (gpuTypes as readonly string[]).includes(text);
}
