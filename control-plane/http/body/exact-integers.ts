// Integers beyond 2^53, which a double cannot hold: kept as their text (JSON.rawJSON) and written unchanged.

import { parseExactJson } from "../../../proto/exact-json.ts";
import type { JsonScan } from "../../../proto/json-scan.ts";

interface RawJson {
  readonly rawJSON: string;
}
const json = JSON as JSON & { rawJSON(text: string): RawJson; isRawJSON(value: unknown): value is RawJson };

/** Returns undefined when the bytes contain no such integer. */
export const parseExactly = (bytes: Buffer, scan: JsonScan): unknown =>
  parseExactJson(bytes, scan, (digits) => json.rawJSON(digits));

/** Returns undefined for any other value. */
export const digitsOf = (value: unknown): string | undefined => (json.isRawJSON(value) ? value.rawJSON : undefined);

/** Returns such an integer from its text in a form; undefined for any other text. */
export function exactInteger(text: string): RawJson | undefined {
  const isOne = /^-?[1-9]\d{15,}$/.test(text) && !Number.isSafeInteger(Number(text));
  return isOne ? json.rawJSON(text) : undefined;
}

/** Returns a double that is in range exactly when the integer is: a validator cannot distinguish 2^64-1 from 2^64. */
export function seedToValidate(digits: string): number {
  // Parsing millions of digits would take seconds.
  const isInReach = digits.length <= maxSeedDigits;
  const exact = isInReach ? BigInt(digits) : 0n;
  if (exact >= 2n ** 64n || (!isInReach && !digits.startsWith("-"))) return 2 ** 65;
  return isInReach && exact >= -(2n ** 63n) ? 0 : -(2 ** 64);
}
/** Length of 2^64 - 1, and of -2^63 with its sign. */
const maxSeedDigits = 20;
