// Which GPUs a model could have now, and on which host the next instance of one would go. The placement itself answers: what
// is shown as available is what would be placed.
import { type GpuType, gpuTypes } from "../../proto/gpu.ts";
import type { HostId } from "../../proto/ids.ts";
import type { Gpu, HostView } from "../fleet/host.ts";
import type { Engine } from "./deployment.ts";
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
  /** The cheapest that is free and holds the weights that were asked about. */
  readonly isRecommended: boolean;
}

/** Of a deployment that was not made. */
export interface NewDryRun extends DryRun {
  readonly engine: Engine;
  /** Expected of one instance, over all its GPUs; 0 unknown. */
  readonly memoryBytes: number;
  /** Nano-USD of the instances that always run; 0n without a price. */
  readonly hourRate: bigint;
}

export interface DryRun {
  /** Where the next instance would go; undefined: nowhere. */
  readonly host: HostId | undefined;
  /** Of every host that cannot take it. */
  readonly refused: readonly Rejection[];
}

const counts = [1, 2, 4, 8];

/** Every size that some host has, in display order. `memoryBytes`: what a model needs; 0 unknown. */
export function gpuOffers(
  hosts: readonly HostView[],
  memoryBytes: number,
  hourRates: ReadonlyMap<string, bigint>,
  /** Most that the account may claim anew. */
  mostNew: (gpu: GpuType) => number | undefined = () => undefined,
): readonly GpuOffer[] {
  const index = createPlacementIndex(hosts);
  const couldHave = (gpu: GpuType, count: number, bytes: number) =>
    index.place({
      ...{ gpu, gpusPerInstance: count, memoryBytes: bytes, mostNewGpus: mostNew(gpu) },
      ...{ engine: "stoker", host: undefined },
    }) !== undefined;
  const sizes = gpuTypes.flatMap((gpu) => {
    const most = (count: number) =>
      Math.max(0, ...hosts.map(({ inventory }) => inventory.gpus.filter((one) => couldBe(gpu, count, one)).length));
    return counts.filter((count) => count <= most(count)).map((count) => ({ gpu, count }));
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

/** Slices are no size of two: they do not work as one. */
const couldBe = (type: GpuType, count: number, gpu: Gpu) =>
  gpu.type === type && isUsable({ engine: "stoker", gpusPerInstance: count }, gpu);

export function dryRun(want: Want, hosts: readonly HostView[]): DryRun {
  return { host: createPlacementIndex(hosts).place(want)?.host, refused: rejections(want, hosts) };
}
