// The price book on the wire. The book counts in nano-USD per million units, audio in milliseconds; the wire in USD.
import { fromUsd, nano, toUsd } from "../../proto/money.ts";
import type { ListedPrice } from "../billing/price-book.ts";
import type { Discount, PriceRates } from "../billing/store.ts";
import type { Rates } from "./schemas/prices.ts";

const million = 1_000_000n;
const usd = (amount: bigint) => toUsd(nano(amount));
const iso = (ms: number) => new Date(ms).toISOString().replace("Z", "+00:00");

export const ratesFrom = (rates: Rates): PriceRates => ({
  input: fromUsd(rates.input ?? 0),
  cachedInput: fromUsd(rates.cached_input ?? rates.input ?? 0),
  output: fromUsd(rates.output ?? 0),
  characters: fromUsd(rates.characters ?? 0),
  audio: fromUsd(rates.audio ?? 0),
  images: fromUsd(rates.image ?? 0) * million,
  imageSteps: BigInt(rates.image_steps ?? 0),
  hour: fromUsd(rates.hour ?? 0),
});

export const renderPrice = (one: ListedPrice) => ({
  version: Number(one.version),
  kind: one.kind,
  subject: one.subject,
  rates: {
    input: usd(one.rates.input),
    cached_input: usd(one.rates.cachedInput),
    output: usd(one.rates.output),
    characters: usd(one.rates.characters),
    audio: usd(one.rates.audio),
    image: usd(one.rates.images / million),
    image_steps: Number(one.rates.imageSteps),
    hour: usd(one.rates.hour),
  },
  effective_from: iso(one.effectiveFromMs),
  current: one.isCurrent,
});

export const renderDiscount = (one: Discount) => ({
  id: one.id,
  name: one.name,
  text: one.text,
  percent: one.basisPoints / 100,
  uid: one.account,
  model: one.model,
  surface: one.surface,
  effective_from: iso(one.effectiveFromMs),
  effective_to: one.effectiveToMs === null ? null : iso(one.effectiveToMs),
});

/** Hundredths of a per cent; a finer one is not rounded but left for the book to refuse. */
export function basisPointsOf(percent: number): number {
  const points = Math.round(percent * 100);
  return Math.abs(points - percent * 100) < 1e-6 ? points : percent * 100;
}
