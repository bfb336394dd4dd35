// Converts phonemes to a speech model's token ids. Pure.
import { cutAt } from "./pieces.ts";

export type PhonemeIds = ReadonlyMap<string, readonly number[]>;

/** An unknown sign may be known as a letter and its accents; otherwise it is left out. */
export function phonemeTokens(phonemes: string, ids: PhonemeIds): readonly (readonly number[])[] {
  const tokens: (readonly number[])[] = [];
  for (const sign of phonemes) {
    const known = ids.get(sign);
    if (known) tokens.push(known);
    else for (const part of sign.normalize("NFD")) tokens.push(...[ids.get(part)].filter((one) => one !== undefined));
  }
  return tokens;
}

/** Parts of at most `maxLength` signs, cut after punctuation where there is any, else between words. */
export function cutPhonemes(phonemes: string, maxLength: number): readonly string[] {
  const parts: string[] = [];
  let rest = phonemes;
  while (rest.length > maxLength) {
    const end = cutAt(rest, maxLength, [", ", ". ", "; ", ": ", "! ", "? "]);
    parts.push(rest.slice(0, end).trim());
    rest = rest.slice(end).trim();
  }
  return [...parts, rest].filter((part) => part !== "");
}
