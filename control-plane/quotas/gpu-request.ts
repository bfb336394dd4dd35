// What may be asked for, of the GPU pool. Pure.
import { type GpuType, isGpuType, sizedGpuTypes } from "../../proto/gpu.ts";
import { GpuRequestConflict, GpuRequestRefused } from "./errors.ts";
import { type GpuCounts, type GpuDefaults, type GpuRecord, gpuLimits, mostGpus } from "./gpu-limits.ts";
import type { Filing, LimitRequest } from "./store.ts";

export interface GpuWish {
  /** As they came: any names, any whole numbers. */
  readonly max: Readonly<Record<string, number>>;
  readonly min: Readonly<Record<string, number>>;
  readonly reason: string;
  /** Of the open request that is edited; null: none is open. */
  readonly expectedId: string | null;
}

/** Throws GpuRequestRefused, GpuRequestConflict. */
export function fileGpuRequest(
  wish: GpuWish,
  record: GpuRecord,
  open: Pick<LimitRequest, "id"> | undefined,
  defaults: GpuDefaults,
): Filing<"gpu"> {
  const max = countsOf(wish.max);
  const min = countsOf(wish.min);
  const types = [...new Set([...Object.keys(max), ...Object.keys(min)])] as GpuType[];
  if (types.length === 0) {
    throw new GpuRequestRefused("Nothing is asked for: name at least one GPU type in requested_max or requested_min.");
  }
  if (wish.expectedId !== (open?.id ?? null)) throw new GpuRequestConflict(open?.id);
  const now = gpuLimits(record, defaults);
  for (const gpu of types) {
    const most = max[gpu] ?? now.max[gpu];
    const least = min[gpu] ?? now.min[gpu];
    if (least > most) {
      throw new GpuRequestRefused(
        `${gpu}: the minimum of ${least} is above the maximum of ${most}. Ask for both to fit.`,
      );
    }
  }
  const isChange = types.some(
    (gpu) => (max[gpu] ?? now.max[gpu]) !== now.max[gpu] || (min[gpu] ?? now.min[gpu]) !== now.min[gpu],
  );
  if (!isChange) throw new GpuRequestRefused("What is asked for are the limits you have. Ask for others, or leave it.");
  return { requested: { max, min }, reason: wish.reason };
}

/** One more type in the open request, or a new one with it alone. Throws GpuRequestRefused. */
export function fileGpuLimit(
  gpu: GpuType,
  limit: number,
  reason: string,
  record: GpuRecord,
  open: LimitRequest<"gpu"> | undefined,
  defaults: GpuDefaults,
): Filing<"gpu"> {
  const wish = { max: { ...open?.requested.max, [gpu]: limit }, min: open?.requested.min ?? {} };
  return fileGpuRequest({ ...wish, reason, expectedId: open?.id ?? null }, record, open, defaults);
}

function countsOf(given: Readonly<Record<string, number>>): GpuCounts {
  const counts: Partial<Record<GpuType, number>> = {};
  for (const [name, count] of Object.entries(given)) {
    if (!isGpuType(name)) {
      throw new GpuRequestRefused(`${name} is no GPU type. There are ${sizedGpuTypes.join(", ")} and other.`);
    }
    if (count < 0 || count > mostGpus) {
      throw new GpuRequestRefused(`${name}: ${count} GPUs cannot be had; ask for 0 to ${mostGpus}.`);
    }
    counts[name] = count;
  }
  return counts;
}
