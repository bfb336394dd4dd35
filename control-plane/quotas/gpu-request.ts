// Validation of requests for GPU limits. Pure.
import { type GpuType, gpuTypesInWords, isGpuType } from "../../proto/gpu.ts";
import { GpuRequestRefused, gpuRequestConflict } from "./errors.ts";
import { type GpuCounts, type GpuDefaults, type GpuRecord, gpuLimit, maxGpus } from "./gpu-limits.ts";
import type { Filing, LimitRequest } from "./store.ts";

export interface GpuLimitParams {
  /** As received: any names, any integers. */
  readonly max: Readonly<Record<string, number>>;
  readonly min: Readonly<Record<string, number>>;
  readonly reason: string;
  /** Id of the open request being amended; null: expects none. */
  readonly expectedId: string | null;
}

/** Throws GpuRequestRefused, gpuRequestConflict. */
export function fileGpuRequest(
  request: GpuLimitParams,
  record: GpuRecord,
  open: Pick<LimitRequest, "id"> | undefined,
  defaults: GpuDefaults,
): Filing<"gpu"> {
  const max = countsOf(request.max);
  const min = countsOf(request.min);
  const types = [...new Set([...Object.keys(max), ...Object.keys(min)])] as GpuType[];
  if (types.length === 0) {
    throw new GpuRequestRefused("The request is empty: name at least one GPU type in requested_max or requested_min.");
  }
  if (request.expectedId !== (open?.id ?? null)) throw gpuRequestConflict(open?.id);
  const nowMax = (gpu: GpuType) => gpuLimit(record, gpu, defaults);
  const nowMin = (gpu: GpuType) => record.min[gpu] ?? 0;
  for (const gpu of types) {
    const newMax = max[gpu] ?? nowMax(gpu);
    const newMin = min[gpu] ?? nowMin(gpu);
    if (newMin > newMax) {
      throw new GpuRequestRefused(
        `${gpu}: the minimum of ${newMin} is above the maximum of ${newMax}. Request a minimum of at most the maximum.`,
      );
    }
  }
  const isChange = types.some(
    (gpu) => (max[gpu] ?? nowMax(gpu)) !== nowMax(gpu) || (min[gpu] ?? nowMin(gpu)) !== nowMin(gpu),
  );
  if (!isChange) throw new GpuRequestRefused("You already have these limits.");
  return { requested: { max, min }, reason: request.reason };
}

/** Adds one type to the open request, or creates a request with that type only. Throws GpuRequestRefused. */
export function fileGpuLimit(
  gpu: GpuType,
  limit: number,
  reason: string,
  record: GpuRecord,
  open: LimitRequest<"gpu"> | undefined,
  defaults: GpuDefaults,
): Filing<"gpu"> {
  const request = { max: { ...open?.requested.max, [gpu]: limit }, min: open?.requested.min ?? {} };
  return fileGpuRequest({ ...request, reason, expectedId: open?.id ?? null }, record, open, defaults);
}

function countsOf(given: Readonly<Record<string, number>>): GpuCounts {
  const counts: Record<GpuType, number> = {};
  for (const [name, count] of Object.entries(given)) {
    if (!isGpuType(name)) {
      throw new GpuRequestRefused(`Unknown GPU type ${name}. Supported: ${gpuTypesInWords}.`);
    }
    if (count < 0 || count > maxGpus) {
      throw new GpuRequestRefused(`${name}: ${count} GPUs must be between 0 and ${maxGpus}.`);
    }
    counts[name] = count;
  }
  return counts;
}
