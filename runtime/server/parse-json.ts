// JSON whose integers survive: a number that a double cannot hold becomes a bigint (`seed` reaches to 2^64).
import { parseExactJson, parseScanned } from "../../proto/exact-json.ts";
import { scanJson } from "../../proto/json-scan.ts";

/** Longer integers are beyond 2^64, and millions of digits would take seconds to read. */
const maxDigits = 20;

/** Throws SyntaxError, also where the bytes nest too deep or hold more values than can be parsed in time. */
export function parseJson(bytes: Buffer): unknown {
  const scan = scanJson(bytes);
  if (scan === "too_deep") throw new SyntaxError("too many levels of nesting");
  if (scan === "too_complex") throw new SyntaxError("too many values");
  return (scan.longIntegers.length > 0 && parseExactJson(bytes, scan, integerOf)) || parseScanned(bytes, scan);
}

const integerOf = (digits: string): bigint | number =>
  digits.replace("-", "").length <= maxDigits ? BigInt(digits) : Number(digits);
