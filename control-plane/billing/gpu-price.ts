// What GPU time costs: price per GPU and hour, cut by the millisecond, rounded once per minute and instance. Pure.
import { minuteMs } from "../../proto/gpu-minute.ts";
import { type NanoUsd, nano } from "../../proto/money.ts";

export interface GpuPrice {
  readonly version: bigint;
  /** Nano-USD per GPU and hour. */
  readonly hourRate: bigint;
  readonly fromMs: number;
}

const hourMs = 3_600_000n;

/** `gpuMs`: milliseconds times GPUs, parts of one included. Rounded half up, both. */
export function gpuCost(gpuMs: number, hourRate: bigint): NanoUsd {
  return nano((BigInt(Math.round(gpuMs)) * hourRate + hourMs / 2n) / hourMs);
}

/** `prices`: the newest first. Undefined: free. */
export function priceAt(prices: readonly GpuPrice[], atMs: number): GpuPrice | undefined {
  return prices.find((price) => price.fromMs <= atMs);
}

/** Whole minutes in [fromMs, untilMs), each at the price in effect at its start, as each will be billed. */
export function costOfMinutes(prices: readonly GpuPrice[], gpus: number, fromMs: number, untilMs: number): bigint {
  let sum = 0n;
  for (let atMs = fromMs; atMs < untilMs; atMs += minuteMs)
    sum += gpuCost(minuteMs * gpus, priceAt(prices, atMs)?.hourRate ?? 0n);
  return sum;
}
