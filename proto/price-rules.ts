// Rates and costs that follow from a price, a service tier and a discount. The control plane bills by these rules, and
// `stoker invoice verify` recomputes bills with them. Pure.
import { type NanoUsd, nano, type TokenRates } from "./money.ts";

export const wholeBasisPoints = 10_000;
const whole = BigInt(wholeBasisPoints);

/** Surcharge of an adapter over its base model. */
export const adapterPercent = 50;

/** Discount of a line of a batch over the same single request. */
const batchBasisPoints = 2_000;

/** Discount of a line of a batch, in addition to another discount. */
export const withBatchDiscount = (basisPoints: number): number =>
  wholeBasisPoints -
  Math.round(((wholeBasisPoints - basisPoints) * (wholeBasisPoints - batchBasisPoints)) / wholeBasisPoints);

/** A rate after the discount, rounded half up: to a nano-USD per million units. */
export const discountedRate = (rate: bigint, basisPoints: number): bigint =>
  (rate * (whole - BigInt(basisPoints)) + whole / 2n) / whole;

const discounted = new WeakMap<TokenRates, Map<number, TokenRates>>();

/** Computed once for a price and a discount, and shared by requests. */
export function discountedRates(rates: TokenRates, basisPoints: number): TokenRates {
  const known = discounted.get(rates) ?? new Map<number, TokenRates>();
  discounted.set(rates, known);
  const lower = known.get(basisPoints) ?? eachRate(rates, (rate) => discountedRate(rate, basisPoints));
  known.set(basisPoints, lower);
  return lower;
}

/** Rates at a service tier, whose price is `percent` of the rates. */
export const tierRates = (rates: TokenRates, percent: number): TokenRates =>
  discountedRates(rates, wholeBasisPoints - 100 * percent);

/** Rounds up each rate. */
export const surchargedRates = (rates: TokenRates, percent: number): TokenRates =>
  eachRate(rates, (rate) => (rate * BigInt(100 + percent) + 99n) / 100n);

function eachRate({ input, cachedInput, output, units }: TokenRates, change: (rate: bigint) => bigint): TokenRates {
  const tokens = { input: change(input), cachedInput: change(cachedInput), output: change(output) };
  if (!units) return tokens;
  const { characters, audio, images } = units;
  return {
    ...tokens,
    units: { ...units, characters: change(characters), audio: change(audio), images: change(images) },
  };
}

const hourMs = 3_600_000n;

/** `gpuMs`: milliseconds times GPUs, also fractions of a GPU. Both are rounded half up. */
export const gpuCost = (gpuMs: number, hourRate: bigint): NanoUsd =>
  nano((BigInt(Math.round(gpuMs)) * hourRate + hourMs / 2n) / hourMs);
