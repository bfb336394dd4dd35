// GPU configurations that can be chosen, by type.
import { type Offer, partsOf } from "./deployment.ts";

export interface TypeOffer {
  readonly gpu: string;
  /** USD per hour of the chosen number of GPUs. */
  readonly usdPerHour: number;
  /** This number is free on one host. */
  readonly isAvailable: boolean;
  /** At least this many are free on one host. */
  readonly freeAtLeast: number;
}

/** Numbers of GPUs that some host has. */
export const countsOf = (offers: readonly Offer[]): readonly number[] =>
  [...new Set(offers.map(({ gpu_config: name }) => partsOf(name).count))].sort((a, b) => a - b);

/** Types that exist with `count` GPUs on one host: available ones first, then by price. */
export function typesWith(count: number, offers: readonly Offer[]): readonly TypeOffer[] {
  const byType = Map.groupBy(offers, ({ gpu_config: name }) => partsOf(name).gpu);
  return [...byType]
    .flatMap(([gpu, sizes]) => {
      const chosen = sizes.find(({ gpu_config: name }) => partsOf(name).count === count);
      if (!chosen) return [];
      const freeAtLeast = Math.max(
        0,
        ...sizes.filter(({ available }) => available).map(({ gpu_config: name }) => partsOf(name).count),
      );
      return [{ gpu, usdPerHour: chosen.usd_per_hour, isAvailable: chosen.available, freeAtLeast }];
    })
    .sort((a, b) => Number(b.isAvailable) - Number(a.isAvailable) || a.usdPerHour - b.usdPerHour);
}
