// How many GPUs of a type an account may use. Pure: the records come from the store.
import { type GpuType, gpuTypes } from "../../proto/gpu.ts";
import { GpuLimitReached } from "./errors.ts";

/** By GPU type; a type that is not named has no entry of its own. */
export type GpuCounts = Readonly<Partial<Record<GpuType, number>>>;

export interface GpuDefaults {
  /** Most GPUs of each type, `other` included, of an account that has no entry for it. */
  readonly perType: number;
}

/** What stands in an account's records. */
export interface GpuRecord {
  readonly isAdmin: boolean;
  readonly max: GpuCounts;
  readonly min: GpuCounts;
}

/** More than any installation has: what the operator's own account may use without an entry. */
export const mostGpus = 1_000_000;

export function gpuLimit(record: Pick<GpuRecord, "isAdmin" | "max">, gpu: GpuType, defaults: GpuDefaults): number {
  return record.max[gpu] ?? (record.isAdmin ? mostGpus : defaults.perType);
}

/** Every type, in display order. */
export function gpuLimits(record: GpuRecord, defaults: GpuDefaults): Record<"max" | "min", Record<GpuType, number>> {
  const of = (count: (gpu: GpuType) => number) =>
    Object.fromEntries(gpuTypes.map((gpu) => [gpu, count(gpu)])) as Record<GpuType, number>;
  return { max: of((gpu) => gpuLimit(record, gpu, defaults)), min: of((gpu) => record.min[gpu] ?? 0) };
}

/** One GPU type of one account, read under the account's lock: nobody else's deployment comes between look and write. */
export interface GpuUse extends Pick<GpuRecord, "isAdmin" | "max"> {
  /** By its other live deployments: most instances times GPUs of one. */
  readonly used: number;
}

/** Throws GpuLimitReached. */
export function requireGpus(use: GpuUse, gpu: GpuType, wanted: number, defaults: GpuDefaults): void {
  const limit = gpuLimit(use, gpu, defaults);
  if (use.used + wanted > limit) throw new GpuLimitReached(gpu, wanted, use.used, limit);
}
