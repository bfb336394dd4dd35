import { isMet } from "../scripts/results/compare.ts";
import {
  addFigures,
  type FigureHistory,
  machine,
  machineId,
  origin,
  recordedFolder,
} from "../scripts/results/recorded.ts";
import { median } from "./load.ts";

export interface Figure extends Omit<FigureHistory, "results"> {
  /** Unique within the bench. */
  readonly name: string;
  /** One value for each round, or a single value. */
  readonly values: readonly number[];
  /** Value of the whole run. Default: the median of the rounds. */
  readonly value?: number;
}

export interface Figures {
  /** Records it for `npm run report` and returns its verdict: `limit 0.90 met`; empty without a limit. */
  judge(figure: Figure): string;
}

/** Options of `npm run bench -- NAME --rounds N --only PART`. */
export interface BenchOptions {
  readonly rounds: number;
  readonly only: string | undefined;
  /** All arguments. */
  readonly rest: readonly string[];
  readonly figures: Figures;
}

export function openFigures(bench: string): Figures {
  const from = { ...origin(), machine: machine(), machineId: machineId() };
  return {
    judge({ name, values, value = median(values), ...figure }) {
      const [low, high] = [Math.min(...values), Math.max(...values)];
      const result = { value: short(value), low: short(low), high: short(high), ...from };
      addFigures(recordedFolder, { [`${bench}: ${name}`]: { ...figure, results: [result] } });
      const isOk = isMet(figure, value);
      return isOk === undefined ? "" : `limit ${figure.atMost ?? figure.atLeast} ${isOk ? "met" : "MISSED"}`;
    },
  };
}

const short = (value: number): number => Number(value.toPrecision(4));
