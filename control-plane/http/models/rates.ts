// Rates as the operator writes them and as they are kept.
import { fromUsd, type NanoUsd, nano, pricedPixels, type TokenRates, toUsd } from "../../../proto/money.ts";
import { priceRefused } from "../../billing/price-book.ts";

/** USD per million tokens, as the operator wrote it. */
export interface Pricing {
  readonly input: number;
  readonly cached_input: number;
  readonly output: number;
}

/** USD per million characters, per 1000 seconds of audio, per image of the given steps. */
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

/**
 * Returns the price in nano-USD. Throws priceRefused where a price would be kept as 0: the smallest unit is USD 1e-9.
 * `field`: as the body names it.
 */
export function priceFromUsd(usd: number, field: string): NanoUsd {
  const price = fromUsd(usd);
  if (price === 0n && usd > 0) throw priceRefused("A price must be 0 or at least USD 0.000000001.", { param: field });
  return price;
}

export function ratesOf(pricing: Pricing & UnitPricing): TokenRates {
  const { characters = 0, audio = 0, image = 0, image_steps: steps = 0 } = pricing;
  const tokens = {
    input: priceFromUsd(pricing.input, "pricing.input"),
    cachedInput: priceFromUsd(pricing.cached_input, "pricing.cached_input"),
    output: priceFromUsd(pricing.output, "pricing.output"),
  };
  if (characters === 0 && audio === 0 && image === 0) return tokens;
  return {
    ...tokens,
    units: {
      characters: priceFromUsd(characters, "pricing.characters"),
      audio: priceFromUsd(audio, "pricing.audio"),
      images: priceFromUsd(image, "pricing.image") * million,
      imageUnit: BigInt(steps) * BigInt(pricedPixels),
    },
  };
}
