// Rates as the operator writes them and as they are kept.
import { fromUsd, nano, pricedPixels, type TokenRates, toUsd } from "../../../proto/money.ts";

/** USD per million tokens, as the operator wrote it. */
export interface Pricing {
  readonly input: number;
  readonly cached_input: number;
  readonly output: number;
}

/** USD per million characters, per 1000 seconds of audio, per image of so many steps. */
export interface UnitPricing {
  readonly characters?: number;
  readonly audio?: number;
  readonly image?: number;
  readonly image_steps?: number;
}

export function perMillion(rates: TokenRates): Pricing {
  return {
    input: toUsd(nano(rates.input)),
    cached_input: toUsd(nano(rates.cachedInput)),
    output: toUsd(nano(rates.output)),
  };
}

export function perUnit({ units }: TokenRates): UnitPricing {
  if (!units) return {};
  return {
    characters: toUsd(nano(units.characters)),
    audio: toUsd(nano(units.audio)),
    image: toUsd(nano(units.images / million)),
    image_steps: Number(units.imageUnit / BigInt(pricedPixels)),
  };
}

const million = 1_000_000n;

export function ratesOf(pricing: Pricing & UnitPricing): TokenRates {
  const { characters = 0, audio = 0, image = 0, image_steps: steps = 0 } = pricing;
  const tokens = {
    input: fromUsd(pricing.input),
    cachedInput: fromUsd(pricing.cached_input),
    output: fromUsd(pricing.output),
  };
  if (characters === 0 && audio === 0 && image === 0) return tokens;
  return {
    ...tokens,
    units: {
      characters: fromUsd(characters),
      audio: fromUsd(audio),
      images: fromUsd(image) * million,
      imageUnit: BigInt(steps) * BigInt(pricedPixels),
    },
  };
}
