import type { FigureHistory, FigureResult, Figures } from "./recorded.ts";

/** A figure may be worse by this much without a word: machines differ and are shared. */
const tolerance = 0.1;

/** Whether the limit is met; undefined: there is none. */
export function isMet({ atMost, atLeast }: Omit<FigureHistory, "results">, value: number): boolean | undefined {
  if (atMost !== undefined) return value <= atMost;
  return atLeast === undefined ? undefined : value >= atLeast;
}

/** A sentence for each figure that is worse than the result before it on its machine by more than both runs scatter. */
export function regressions(figures: Figures): readonly string[] {
  return Object.entries(figures).flatMap(([name, figure]) => {
    const here = figure.results.at(-1)?.machineId;
    const [before, last] = figure.results.filter(({ machineId }) => machineId === here).slice(-2);
    if (!before || !last || !isWorse(figure, before, last)) return [];
    return `${name}: ${text(last, figure.unit)} at ${last.commit}, ${text(before, figure.unit)} at ${before.commit}`;
  });
}

function isWorse({ atLeast }: FigureHistory, before: FigureResult, last: FigureResult): boolean {
  // Without a limit from below, less is better.
  return atLeast === undefined
    ? last.low > before.high && last.value > before.value * (1 + tolerance)
    : last.high < before.low && last.value < before.value * (1 - tolerance);
}

export const text = ({ value, low, high }: Pick<FigureResult, "value" | "low" | "high">, unit = ""): string => {
  const number = (one: number) => (Math.abs(one) >= 100 ? one.toFixed(0) : one.toFixed(2));
  return `${number(value)}${unit && ` ${unit}`} (${number(low)} to ${number(high)})`;
};
