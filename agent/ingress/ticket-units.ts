import type { TokenRates, UnitCounts } from "../../proto/money.ts";
import type { Ticket } from "../../proto/ticket.ts";

/** Most requests to a host are priced as the one before. */
let last: { readonly key: string; readonly rates: TokenRates } | undefined;

export function ratesOf({ rates: [input, cachedInput, output], units }: Ticket): TokenRates {
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

/** Virtual tokens of a second of audio and of an image, by what they take of an engine beside a token of text. */
const perAudioSecond = 50;
const perImage = 1_000;

/** For the gate's fairness: what matters is how the requests to one engine compare. */
export function unitWeight(units: UnitCounts | undefined): number {
  if (!units) return 0;
  return units.characters + (units.audioMs / 1000) * perAudioSecond + units.images * perImage + units.items;
}
