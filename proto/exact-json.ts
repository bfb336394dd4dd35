// JSON with exact integers: the caller converts the digits of those that a double cannot hold. Long texts such as pictures are
// cut out before parsing and put back: JSON.parse reads every byte of them and would block the process for too long at 50 MB.
import { randomBytes } from "node:crypto";
import type { JsonScan } from "./json-scan.ts";

/** JSON of a value whose bigints become text in decimal. */
export const bigintJson = (value: unknown): string =>
  JSON.stringify(value, (_, one) => (typeof one === "bigint" ? String(one) : one));

/** `value` without exact integers. Throws SyntaxError. */
export function parseScanned(bytes: Buffer, { longTexts }: JsonScan): unknown {
  if (longTexts.length === 0) return JSON.parse(bytes.toString());
  return parseWith(bytes, longTexts, (start, end) => bytes.toString("utf8", start + 1, end - 1));
}

/**
 * Parses JSON; each integer that is beyond 2^53 becomes `make(digits)`. Undefined when there is none. A reviver would cost thirty times
 * as much per value. Throws SyntaxError. Nesting must be bounded by `maxJsonDepth`.
 */
export function parseExactJson(
  bytes: Buffer,
  { longIntegers, longTexts }: JsonScan,
  make: (digits: string) => unknown,
): unknown {
  const integers = longIntegers.filter(
    ([start, end]) => !Number.isSafeInteger(Number(bytes.toString("latin1", start, end))),
  );
  if (integers.length === 0) return undefined;
  const places = [...integers, ...longTexts].sort(([a], [b]) => a - b);
  return parseWith(bytes, places, (start, end) =>
    bytes[start] === quote ? bytes.toString("utf8", start + 1, end - 1) : make(bytes.toString("latin1", start, end)),
  );
}
const quote = 0x22;

type Places = JsonScan["longTexts"];

function parseWith(bytes: Buffer, places: Places, make: (start: number, end: number) => unknown): unknown {
  const mark = `\0${randomBytes(16).toString("base64url")}`;
  const parts: Buffer[] = [];
  let done = 0;
  for (const [i, [start, end]] of places.entries()) {
    parts.push(bytes.subarray(done, start), Buffer.from(JSON.stringify(mark + i)));
    done = end;
  }
  const unmarked = (value: unknown): unknown => {
    if (typeof value === "string") return value.startsWith(mark) ? made(Number(value.slice(mark.length))) : value;
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) {
      for (let i = 0; i < value.length; i++) value[i] = unmarked(value[i]);
      return value;
    }
    for (const [key, member] of Object.entries(value)) {
      const other = unmarked(member);
      if (other !== member) Object.defineProperty(value, key, { ...plain, value: other });
    }
    return value;
  };
  const made = (i: number): unknown => make(...(places[i] as Places[number]));
  return unmarked(JSON.parse(Buffer.concat([...parts, bytes.subarray(done)]).toString()));
}

/** Assignment to `__proto__` would set the prototype. */
const plain = { configurable: true, enumerable: true, writable: true };
