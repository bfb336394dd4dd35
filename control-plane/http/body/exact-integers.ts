// Integers beyond 2^53, which a double cannot hold: kept as the text they came in (JSON.rawJSON), and written as it again.

import { parseExactJson } from "../../../proto/exact-json.ts";
import type { JsonScan } from "../../../proto/json-scan.ts";

interface RawJson {
  readonly rawJSON: string;
}
const json = JSON as JSON & { rawJSON(text: string): RawJson; isRawJSON(value: unknown): value is RawJson };

/** Undefined when the bytes hold no such integer. */
export const parseExactly = (bytes: Buffer, scan: JsonScan): unknown =>
  parseExactJson(bytes, scan, (digits) => json.rawJSON(digits));

/** Undefined: it is none of these integers. */
export const digitsOf = (value: unknown): string | undefined => (json.isRawJSON(value) ? value.rawJSON : undefined);

/** A text of a form that spells such an integer. */
export function exactInteger(text: string): RawJson | undefined {
  const isOne = /^-?[1-9]\d{15,}$/.test(text) && !Number.isSafeInteger(Number(text));
  return isOne ? json.rawJSON(text) : undefined;
}

/** A validator of doubles cannot tell 2^64-1 from 2^64: it gets a number that is in or out of range as the exact one is. */
export function seedToValidate(digits: string): number {
  // Millions of them would take seconds to read, and no seed in range has more.
  const isInReach = digits.length <= maxSeedDigits;
  const exact = isInReach ? BigInt(digits) : 0n;
  if (exact >= 2n ** 64n || (!isInReach && !digits.startsWith("-"))) return 2 ** 65;
  return isInReach && exact >= -(2n ** 63n) ? 0 : -(2 ** 64);
}
/** Of 2^64 - 1, and of -2^63 with its sign. */
const maxSeedDigits = 20;
