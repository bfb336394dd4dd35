// GBNF of the decimal integers from `min` to `max`, which may be open.
const openDigits = 15;

/** Throws RangeError when the range is empty. */
export function integerRange(min: bigint | undefined, max: bigint | undefined): string {
  const lowest = min ?? -(10n ** BigInt(openDigits) - 1n);
  const highest = max ?? 10n ** BigInt(openDigits) - 1n;
  if (lowest > highest) throw new RangeError(`no integer lies between ${lowest} and ${highest}`);
  const alternatives: string[] = [];
  if (lowest < 0n) {
    const nearest = highest < 0n ? -highest : 1n;
    alternatives.push(`"-" (${positives(nearest, -lowest)})`);
  }
  if (highest >= 0n) alternatives.push(positives(lowest > 0n ? lowest : 0n, highest));
  return alternatives.join(" | ");
}

/** Both not negative; numbers of one length at a time. */
function positives(from: bigint, to: bigint): string {
  const parts: string[] = [];
  for (let length = String(from).length; length <= String(to).length; length++) {
    const first = length === 1 ? 0n : 10n ** BigInt(length - 1);
    const last = 10n ** BigInt(length) - 1n;
    parts.push(sameLength(String(from > first ? from : first), String(to < last ? to : last)));
  }
  return parts.join(" | ");
}

function sameLength(from: string, to: string): string {
  if (from === "") return '""';
  if (/^0*$/.test(from) && /^9*$/.test(to)) return `[0-9]{${from.length}}`;
  const [a, b] = [Number(from[0]), Number(to[0])];
  const [fromRest, toRest] = [from.slice(1), to.slice(1)];
  if (a === b) return `"${a}" ${group(sameLength(fromRest, toRest))}`;
  const rest = fromRest.length;
  const parts = [`"${a}" ${group(sameLength(fromRest, "9".repeat(rest)))}`];
  if (b - a > 1) parts.push(`[${a + 1}-${b - 1}] ${rest > 0 ? `[0-9]{${rest}}` : ""}`);
  parts.push(`"${b}" ${group(sameLength("0".repeat(rest), toRest))}`);
  return parts.join(" | ");
}

const group = (expression: string) => `(${expression})`;
