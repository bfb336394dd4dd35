// GPU limits of an account by type. Pure: the records come from the store.
import { type GpuType, inDisplayOrder, isSizedGpuType, sizedGpuTypes } from "../../proto/gpu.ts";
import { GpuLimitReached } from "./errors.ts";

/** By GPU type; a missing type has no entry of its own. */
export type GpuCounts = Readonly<Record<GpuType, number>>;

export interface GpuDefaults {
  /** Maximum GPUs of each type, including `other`, for an account without an entry for it. */
  readonly perType: number;
}

/** The account's stored limits. */
export interface GpuRecord {
  readonly isAdmin: boolean;
  readonly max: GpuCounts;
  readonly min: GpuCounts;
}

/** Limit of the operator's own account without an entry; more than any installation has. */
export const maxGpus = 1_000_000;

/** A type outside the contract counts as `other` where it has no entry. */
export function gpuLimit(record: Pick<GpuRecord, "isAdmin" | "max">, gpu: GpuType, defaults: GpuDefaults): number {
  const own = record.max[gpu] ?? (isSizedGpuType(gpu) ? undefined : record.max["other"]);
  return own ?? (record.isAdmin ? maxGpus : defaults.perType);
}

/** Returns the contract's types, those with an entry and `existing` ones, in display order. */
export function gpuLimits(
  record: GpuRecord,
  defaults: GpuDefaults,
  existing: readonly GpuType[] = [],
): Record<"max" | "min", Record<GpuType, number>> {
  const own = [...Object.keys(record.max), ...Object.keys(record.min)];
  const types = inDisplayOrder([...sizedGpuTypes, "other", ...own, ...existing]);
  const of = (count: (gpu: GpuType) => number) => Object.fromEntries(types.map((gpu) => [gpu, count(gpu)]));
  return { max: of((gpu) => gpuLimit(record, gpu, defaults)), min: of((gpu) => record.min[gpu] ?? 0) };
}

/** One GPU type of one account, read under the account's lock, so no other deployment changes it before the write. */
export interface GpuUse extends Pick<GpuRecord, "isAdmin" | "max"> {
  /** By the account's other live deployments: maximum instances times GPUs per instance. */
  readonly used: number;
}

/** Throws GpuLimitReached. */
export function requireGpus(use: GpuUse, gpu: GpuType, wanted: number, defaults: GpuDefaults): void {
  const limit = gpuLimit(use, gpu, defaults);
  if (use.used + wanted > limit) throw new GpuLimitReached(gpu, wanted, use.used, limit);
}
