// What one tenant costs the others.
import { Histogram } from "./histogram.ts";
import type { Outcome } from "./simulate.ts";

/** First token (ms) of all accounts except `account`, over several runs. */
export function ttftOfOthers(outcomes: readonly Outcome[], account: string): Histogram {
  const all = new Histogram();
  for (const { tally } of outcomes)
    for (const [name, own] of tally.accounts) if (name !== account) all.merge(own.ttftMs);
  return all;
}

/** Jain's index of the values: 1 if all are equal, 1/n if one has everything. */
export function jain(values: readonly number[]): number {
  let sum = 0;
  let squares = 0;
  for (const value of values) {
    sum += value;
    squares += value * value;
  }
  return squares === 0 ? 1 : (sum * sum) / (values.length * squares);
}

/** Tokens served by account, in the order in which accounts were first served. Prompt tokens from caches do not count. */
export const tokensByAccount = ({ tally }: Outcome): readonly number[] =>
  [...tally.accounts.values()].map(({ tokens }) => tokens);
