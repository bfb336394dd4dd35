// Cost of GPU time: price per GPU and hour, by the millisecond, rounded once per minute and instance. Pure.
import { minuteMs } from "../../proto/gpu-minute.ts";
import { discountedRate, gpuCost } from "../../proto/price-rules.ts";
import { type Discount, type DiscountedUse, discountFor } from "./discounts.ts";

export interface GpuPrice {
  readonly version: bigint;
  /** Nano-USD per GPU and hour. */
  readonly hourRate: bigint;
  readonly fromMs: number;
}

/** Prices and discounts that determine the cost of an instance's minutes. */
export interface GpuTariff {
  /** Price versions of its GPU type, newest first. */
  readonly prices: readonly GpuPrice[];
  /** Discounts that may match `use`; includes ended ones, for minutes that arrive late. */
  readonly discounts: readonly Discount[];
  readonly use: DiscountedUse;
}

/** Price and discount of a minute: those in effect at its start. */
export interface GpuRate {
  readonly version: bigint;
  /** Nano-USD per GPU and hour, less the discount. */
  readonly hourRate: bigint;
  readonly discountId: string | null;
}

/** `prices`: newest first. Undefined: free. */
export function priceAt(prices: readonly GpuPrice[], atMs: number): GpuPrice | undefined {
  return prices.find((price) => price.fromMs <= atMs);
}

/** Undefined: free. */
export function rateAt(tariff: GpuTariff, atMs: number): GpuRate | undefined {
  const price = priceAt(tariff.prices, atMs);
  if (!price) return undefined;
  const discount = discountFor(tariff.discounts, tariff.use, atMs);
  if (!discount) return { version: price.version, hourRate: price.hourRate, discountId: null };
  const hourRate = discountedRate(price.hourRate, discount.basisPoints);
  return { version: price.version, hourRate, discountId: discount.id };
}

/** Sum over the whole minutes in [fromMs, untilMs), each at the price and discount in effect at its start. */
export function costOfMinutes(tariff: GpuTariff, gpus: number, fromMs: number, untilMs: number): bigint {
  let sum = 0n;
  for (let atMs = fromMs; atMs < untilMs; atMs += minuteMs)
    sum += gpuCost(minuteMs * gpus, rateAt(tariff, atMs)?.hourRate ?? 0n);
  return sum;
}
