// Judges JSON in its bytes, before JSON.parse: the time that parsing takes grows with the values, not with the bytes, so a body
// of a few MiB can stop a process for seconds. One pass, about a nanosecond per byte; long strings are skipped by native search.

/** Lists and objects within each other. */
export const maxJsonDepth = 256;
/**
 * Cost of parsing in units of about 25 ns: a number, true, false or null costs 1, an integer of 16 digits 41, an object or list 2, a
 * string 2 or, of at most 10 bytes, 12 (V8 looks for an equal one), a field name 38 more; four escapes, and 16 bytes of white space or
 * of one number, cost 1.
 */
export const maxJsonCost = 800_000;

export interface JsonScan {
  /** Start and end of each integer of at least 16 digits, in bytes: a double may not hold it. */
  readonly longIntegers: readonly (readonly [start: number, end: number])[];
  /** Start and end, with their quotes, of values that are long texts without escapes: what is between may be taken as it is. */
  readonly longTexts: readonly (readonly [start: number, end: number])[];
  /** An escape of half a surrogate pair without its other half, which no UTF-8 text can hold. */
  readonly hasLoneSurrogate: boolean;
}

export type JsonProblem = "too_deep" | "too_complex";

const quote = 0x22;
const backslash = 0x5c;
const longDigits = 16;
const longTextBytes = 256 * 1024;
/** Above this length V8 does not look for an equal string. */
const maxInternedBytes = 10;
/** Bytes of a string that are read one by one before native search takes over, whose calls cost as much. */
const stride = 256;

const kindOf = new Uint8Array(256);
const opens = 1;
const closes = 2;
const quotes = 3;
const colon = 4;
const digit = 5;
const literal = 6;
const space = 7;
const comma = 8;
for (const c of "[{") kindOf[c.charCodeAt(0)] = opens;
for (const c of "]}") kindOf[c.charCodeAt(0)] = closes;
for (const c of "-0123456789") kindOf[c.charCodeAt(0)] = digit;
for (const c of "tfn") kindOf[c.charCodeAt(0)] = literal;
for (const c of " \n\r\t") kindOf[c.charCodeAt(0)] = space;
kindOf[quote] = quotes;
kindOf[0x3a] = colon;
kindOf[0x2c] = comma;

/** JSON.parse throws on such bytes, at this place or earlier. */
const malformed: JsonScan = { longIntegers: [], longTexts: [], hasLoneSurrogate: false };

/** Does not check that the bytes are JSON: JSON.parse does. */
export function scanJson(bytes: Buffer): JsonScan | JsonProblem {
  const { length } = bytes;
  const longIntegers: [number, number][] = [];
  const longTexts: [number, number][] = [];
  let lastLong = -1;
  const text = new StringScan(bytes);
  let depth = 0;
  let cost = 0;
  let commas = 0;
  let at = 0;
  while (at < length) {
    switch (kindOf[bytes[at++] as number]) {
      case space: {
        const start = at;
        while ((bytes[at] as number) <= 0x20) at += 1;
        cost += (at - start) >> 4;
        break;
      }
      case opens:
        depth += 1;
        if (depth > maxJsonDepth) return "too_deep";
        cost += 2;
        break;
      case closes:
        depth -= 1;
        break;
      case quotes: {
        const end = text.end(at, (maxJsonCost - cost) * 4);
        cost += (end - at <= maxInternedBytes ? 12 : 2) + (text.escapes >> 2);
        const isLong = end - at >= longTextBytes && text.escapes === 0 && !hasControl(bytes.subarray(at, end));
        lastLong = isLong ? longTexts.push([at - 1, end + 1]) : -1;
        at = end + 1;
        break;
      }
      case colon:
        // It was a name, not a value.
        if (lastLong > 0) longTexts.length = lastLong - 1;
        lastLong = -1;
        cost += 38;
        break;
      case digit: {
        const start = at - 1;
        at = endOfDigits(bytes, at);
        const isInteger = !isInNumber(bytes[at]);
        if (isInteger && at - start >= longDigits) {
          longIntegers.push([start, at]);
          cost += 40;
        }
        while (isInNumber(bytes[at])) at += 1;
        cost += 1 + ((at - start) >> 4);
        break;
      }
      case literal:
        at += bytes[at - 1] === 0x66 ? 4 : 3;
        cost += 1;
        break;
      case comma:
        commas += 1;
        // In valid JSON each comma follows a value, and each value adds to the cost.
        if (commas > cost) return malformed;
        break;
      default:
        return malformed;
    }
    if (cost > maxJsonCost) return "too_complex";
    if (depth < 0) return malformed;
  }
  return { longIntegers, longTexts, hasLoneSurrogate: text.hasLoneSurrogate };
}

function endOfDigits(bytes: Buffer, from: number): number {
  let at = from;
  for (let c = bytes[at] as number; c >= 0x30 && c <= 0x39; c = bytes[at] as number) at += 1;
  return at;
}

/** JSON.parse refuses them all in a text. These are the ones that something behind the edge would act on. */
const hasControl = (bytes: Buffer): boolean => [0x0a, 0x0d, 0x09, 0].some((control) => bytes.includes(control));

/** Characters allowed in a number: `.`, `e`, `E`, a sign, digits. */
function isInNumber(c: number | undefined): boolean {
  if (c === undefined) return false;
  return (c >= 0x30 && c <= 0x39) || c === 0x2e || c === 0x65 || c === 0x45 || c === 0x2b || c === 0x2d;
}

/** Remembers what native search has found, so that no byte is searched twice. */
class StringScan {
  /** Number of escapes in the last string. */
  escapes = 0;
  hasLoneSurrogate = false;
  readonly #bytes: Buffer;
  #nextQuote = -1;
  #nextEscape = -1;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** Index of the closing quote of the string that starts at `from`, or the end of the bytes. Stops after `maxEscapes`. */
  end(from: number, maxEscapes: number): number {
    const bytes = this.#bytes;
    const { length } = bytes;
    let at = from;
    let escapes = 0;
    while (at < length) {
      const near = Math.min(at + stride, length);
      let c = 0;
      while (at < near) {
        c = bytes[at] as number;
        if (c === quote || c === backslash) break;
        at += 1;
      }
      if (at === near) {
        at = this.#jump(at);
        continue;
      }
      if (c === quote) break;
      escapes += 1;
      if (escapes > maxEscapes) break;
      at += bytes[at + 1] === 0x75 ? this.#unicodeEscape(at) : 2;
    }
    this.escapes = escapes;
    return Math.min(at, length);
  }

  /** To the next quote or backslash. */
  #jump(at: number): number {
    const bytes = this.#bytes;
    if (this.#nextQuote < at) this.#nextQuote = found(bytes.indexOf(quote, at), bytes.length);
    if (this.#nextEscape < at) this.#nextEscape = found(bytes.indexOf(backslash, at), bytes.length);
    return Math.min(this.#nextQuote, this.#nextEscape);
  }

  /** Length of the escape `\uXXXX` at `at`, with the other half of a surrogate pair. */
  #unicodeEscape(at: number): number {
    const first = surrogateAt(this.#bytes, at);
    if (first === 0) return 6;
    if (first === high && surrogateAt(this.#bytes, at + 6) === low) return 12;
    this.hasLoneSurrogate = true;
    return 6;
  }
}

const high = 1;
const low = 2;

/** Returns which half of a surrogate pair `\uXXXX` at `at` encodes; 0: neither. */
function surrogateAt(bytes: Buffer, at: number): number {
  if (bytes[at] !== backslash || bytes[at + 1] !== 0x75 || ((bytes[at + 2] as number) | 0x20) !== 0x64) return 0;
  const second = (bytes[at + 3] as number) | 0x20;
  if (second === 0x38 || second === 0x39 || second === 0x61 || second === 0x62) return high;
  return second >= 0x63 && second <= 0x66 ? low : 0;
}

const found = (index: number, none: number): number => (index < 0 ? none : index);
