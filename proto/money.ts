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
  /** Rates of a model that is not priced by tokens only. */
  readonly units?: UnitRates | undefined;
}

/** Rates paid to an upstream provider: nano-USD per million tokens, and per request. */
export interface ProviderRates {
  readonly input: bigint;
  readonly cachedInput: bigint;
  readonly output: bigint;
  readonly request: bigint;
}

export interface TokenCounts {
  /** Prompt tokens, cached ones included. */
  readonly input: number;
  readonly cachedInput: number;
  readonly output: number;
  readonly units?: UnitCounts | undefined;
}

/** Units of speech, transcription and images. */
export interface UnitCounts {
  /** Characters of spoken text. */
  readonly characters: number;
  /** Milliseconds of audio that were transcribed. */
  readonly audioMs: number;
  readonly images: number;
  /** Width x height x steps, summed over the images; 0: not known. */
  readonly imagePixelSteps: number;
  /** Inputs embedded, documents ranked, texts classified: shown, not priced. */
  readonly items: number;
}

/** Nano-USD per million characters, milliseconds of audio, images. */
export interface UnitRates {
  readonly characters: bigint;
  readonly audio: bigint;
  readonly images: bigint;
  /** Pixel steps of an image at that price: others cost in proportion. 0: every image costs the same. */
  readonly imageUnit: bigint;
}

/** Pixels of the image that a price per image is of: width and height of 1024. */
export const pricedPixels = 1024 * 1024;

export const freeOfCharge: TokenRates = { input: 0n, cachedInput: 0n, output: 0n };
const million = 1_000_000n;

/** The price of one request, rounded half up to a nano-USD. */
export function costOf(tokens: TokenCounts, rates: TokenRates): NanoUsd {
  const cached = BigInt(Math.min(tokens.cachedInput, tokens.input));
  const fresh = BigInt(tokens.input) - cached;
  const micro = fresh * rates.input + cached * rates.cachedInput + BigInt(tokens.output) * rates.output;
  const all = tokens.units && rates.units ? micro + microOf(tokens.units, rates.units) : micro;
  return nano((all + million / 2n) / million);
}

/** USD of these figures; 0 where figures or prices are unknown. */
export const costUsd = (tokens: TokenCounts | undefined, rates: TokenRates | undefined): number =>
  toUsd(tokens && rates ? costOf(tokens, rates) : nano(0n));

function microOf(units: UnitCounts, rates: UnitRates): bigint {
  const isScaled = rates.imageUnit > 0n && units.imagePixelSteps > 0;
  const images = isScaled
    ? (BigInt(units.imagePixelSteps) * rates.images) / rates.imageUnit
    : BigInt(units.images) * rates.images;
  return BigInt(units.characters) * rates.characters + BigInt(units.audioMs) * rates.audio + images;
}

/** An upper bound of the price: every input token uncached, rounded up. */
export function ceilingOf(inputTokens: number, outputTokens: number, rates: TokenRates, units?: UnitCounts): NanoUsd {
  // biome-ignore lint/complexity/useMathMinMax: Math.max takes no bigint.
  const input = rates.input > rates.cachedInput ? rates.input : rates.cachedInput;
  let micro = BigInt(inputTokens) * input + BigInt(outputTokens) * rates.output;
  // A picture's part of a micro is rounded down there: one more covers it.
  if (units && rates.units) micro += microOf(units, rates.units) + (units.imagePixelSteps > 0 ? 1n : 0n);
  return nano((micro + million - 1n) / million);
}
