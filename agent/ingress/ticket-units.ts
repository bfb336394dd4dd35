import type { TokenRates, UnitCounts } from "../../proto/money.ts";
import type { Ticket, TicketUnits } from "../../proto/ticket.ts";
import type { Price } from "./find-usage.ts";

/** Cache of one entry: most requests to a host have the price of the previous one. */
let last: { readonly key: string; readonly rates: TokenRates } | undefined;

export const priceOf = (ticket: Ticket): Price => ({ rates: ratesOf(ticket), max: BigInt(ticket.hold) });

function ratesOf({ rates: [input, cachedInput, output], units }: Ticket): TokenRates {
  const key = `${input} ${cachedInput} ${output}`;
  if (last?.key !== key) {
    last = { key, rates: { input: BigInt(input), cachedInput: BigInt(cachedInput), output: BigInt(output) } };
  }
  const tokens = last.rates;
  if (!units) return tokens;
  const [characters, audio, images, imageUnit] = units.rates;
  return {
    ...tokens,
    units: {
      characters: BigInt(characters),
      audio: BigInt(audio),
      images: BigInt(images),
      imageUnit: BigInt(imageUnit),
    },
  };
}

/** Milliseconds of audio that the hold covers; undefined for a request without audio. */
export function audioBoundMs(units: TicketUnits | undefined): number | undefined {
  if (!units || units.asked.audioMs === 0) return undefined;
  // A control plane of an older version sends no bound: use its count.
  return Math.max(units.asked.audioMs, units.most?.audioMs ?? 0);
}

/** Virtual tokens of a second of audio and of an image, by their cost to an engine relative to a token of text. */
const perAudioSecond = 50;
const perImage = 1_000;

/** Cost for the gate's fairness: only the relative cost of requests to one engine matters. */
export function unitWeight(units: UnitCounts | undefined): number {
  if (!units) return 0;
  return units.characters + (units.audioMs / 1000) * perAudioSecond + units.images * perImage + units.items;
}
