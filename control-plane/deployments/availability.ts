// GPUs that a model could get now, and the host of its next instance. Uses the placement itself, so what is offered can be
// placed.
import { type GpuType, gpuTypes } from "../../proto/gpu.ts";
import type { HostId } from "../../proto/ids.ts";
import type { Gpu, HostView } from "../fleet/host.ts";
import type { Engine } from "./deployment.ts";
import { canUseGpus } from "./place-filter.ts";
import { isUsable } from "./place-gpus.ts";
import { createPlacementIndex } from "./place-index.ts";
import { type Rejection, rejections } from "./place-reasons.ts";
import type { Want } from "./want.ts";

export interface GpuOffer {
  readonly gpu: GpuType;
  readonly count: number;
  /** Nano-USD for all its GPUs; 0n without a price. */
  readonly hourRate: bigint;
  readonly isAvailable: boolean;
  /** The cheapest free GPU that holds the requested weights. */
  readonly isRecommended: boolean;
}

/** Result for a deployment that was not created. */
export interface NewDryRun extends DryRun {
  readonly engine: Engine;
  /** Expected memory of one instance over all its GPUs; 0: unknown. */
  readonly memoryBytes: number;
  /** Nano-USD of the instances that always run; 0n without a price. */
  readonly hourRate: bigint;
}

export interface DryRun {
  /** Host of the next instance; undefined: none. */
  readonly host: HostId | undefined;
  /** For every host that cannot take it. */
  readonly refused: readonly Rejection[];
}

const counts = [1, 2, 4, 8];

/** Returns every size that at least one host has, in display order. `memoryBytes`: need of the model; 0: unknown. */
export function gpuOffers(
  allHosts: readonly HostView[],
  memoryBytes: number,
  hourRates: ReadonlyMap<string, bigint>,
  /** Maximum GPUs that the account may newly claim. */
  maxNew: (gpu: GpuType) => number | undefined = () => undefined,
): readonly GpuOffer[] {
  const hosts = allHosts.filter(({ inventory }) => canUseGpus("stoker", inventory));
  const index = createPlacementIndex(hosts);
  const couldHave = (gpu: GpuType, count: number, bytes: number) =>
    index.place({
      ...{ gpu, gpusPerInstance: count, memoryBytes: bytes, maxNewGpus: maxNew(gpu) },
      ...{ engine: "stoker", host: undefined },
    }) !== undefined;
  const sizes = gpuTypes.flatMap((gpu) => {
    const maxOnHost = (count: number) =>
      Math.max(0, ...hosts.map(({ inventory }) => inventory.gpus.filter((one) => couldBe(gpu, count, one)).length));
    return counts.filter((count) => count <= maxOnHost(count)).map((count) => ({ gpu, count }));
  });
  const offers = sizes.map(({ gpu, count }) => ({
    gpu,
    count,
    hourRate: (hourRates.get(gpu) ?? 0n) * BigInt(count),
    isAvailable: couldHave(gpu, count, 0),
    holds: couldHave(gpu, count, memoryBytes),
  }));
  const cheapest = offers
    .filter(({ holds }) => holds)
    .sort((a, b) => (a.hourRate === b.hourRate ? a.count - b.count : a.hourRate < b.hourRate ? -1 : 1))[0];
  return offers.map((offer) => {
    const { holds: _, ...rest } = offer;
    return { ...rest, isRecommended: offer === cheapest };
  });
}

/** GPU slices cannot be combined. */
const couldBe = (type: GpuType, count: number, gpu: Gpu) =>
  gpu.type === type && isUsable({ engine: "stoker", gpusPerInstance: count }, gpu);

export function dryRun(want: Want, hosts: readonly HostView[]): DryRun {
  return { host: createPlacementIndex(hosts).place(want)?.host, refused: rejections(want, hosts) };
}
