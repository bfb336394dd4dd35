// Amounts in cents, for people. Pure.
import { nanoPerCent } from "./payments.ts";

/**
 * Amounts in whole cents for people: the lines add up to the total, which is rounded. Each line differs from its amount by less
 * than a cent.
 */
export function inWholeCents(amounts: readonly bigint[]): {
  readonly lines: readonly bigint[];
  readonly total: bigint;
} {
  const total = roundedCents(amounts.reduce((sum, amount) => sum + amount, 0n));
  const parts = amounts.map((amount, index) => {
    const rest = ((amount % nanoPerCent) + nanoPerCent) % nanoPerCent;
    return { index, rest, cents: (amount - rest) / nanoPerCent };
  });
  let missing = total - parts.reduce((sum, part) => sum + part.cents, 0n);
  const lines = parts.map((part) => part.cents);
  for (const { index, cents } of parts.toSorted((a, b) => (a.rest === b.rest ? 0 : a.rest > b.rest ? -1 : 1))) {
    if (missing === 0n) break;
    lines[index] = cents + 1n;
    missing -= 1n;
  }
  return { lines, total };
}

/** Half a cent rounds up. */
export const roundedCents = (amount: bigint): bigint => {
  const raised = amount + nanoPerCent / 2n;
  const rest = ((raised % nanoPerCent) + nanoPerCent) % nanoPerCent;
  return (raised - rest) / nanoPerCent;
};
