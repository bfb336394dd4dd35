// Money is integer nano-USD; rates are nano-USD per million units, so USD 0.0025 per million tokens is still an integer.
// The control plane prices with this and the agent prints `estimated_cost` with it: one formula, rounded once.

declare const unit: unique symbol;
export type NanoUsd = bigint & { readonly [unit]: "nano-usd" };

export const nano = (value: bigint): NanoUsd => value as NanoUsd;

/** Decimal USD at the edge to nano-USD, rounded to the nearest. Throws RangeError when not finite. */
export function fromUsd(usd: number): NanoUsd {
  if (!Number.isFinite(usd)) throw new RangeError(`not an amount of money: ${usd}`);
  return nano(BigInt(Math.round(usd * 1e9)));
}

/** For JSON at the edge only. */
export function toUsd(amount: NanoUsd): number {
  return Number(amount) / 1e9;
}

/** Nano-USD per million tokens. */
export interface TokenRates {
  readonly input: bigint;
  readonly cachedInput: bigint;
  readonly output: bigint;
}

export interface TokenCounts {
  /** Prompt tokens, cached ones included. */
  readonly input: number;
  readonly cachedInput: number;
  readonly output: number;
}

export const freeOfCharge: TokenRates = { input: 0n, cachedInput: 0n, output: 0n };
const million = 1_000_000n;

/** The price of one request, rounded half up to a nano-USD. */
export function costOf(tokens: TokenCounts, rates: TokenRates): NanoUsd {
  const cached = BigInt(Math.min(tokens.cachedInput, tokens.input));
  const fresh = BigInt(tokens.input) - cached;
  const micro = fresh * rates.input + cached * rates.cachedInput + BigInt(tokens.output) * rates.output;
  return nano((micro + million / 2n) / million);
}

/** An upper bound of the price: every input token uncached, rounded up. */
export function ceilingOf(inputTokens: number, outputTokens: number, rates: TokenRates): NanoUsd {
  // biome-ignore lint/complexity/useMathMinMax: Math.max takes no bigint.
  const input = rates.input > rates.cachedInput ? rates.input : rates.cachedInput;
  const micro = BigInt(inputTokens) * input + BigInt(outputTokens) * rates.output;
  return nano((micro + million - 1n) / million);
}
