// Time series of the API: totals and lines of a chart.

import type { Responses } from "../../proto/gen/responses.ts";

export type MetricsSeries = Responses["GET /v1/metrics/series"];

export const ranges = ["1h", "6h", "24h", "7d", "30d", "90d"] as const;
export type Range = (typeof ranges)[number];

export const isRange = (text: string): text is Range => (ranges as readonly string[]).includes(text);

type Values = readonly (number | null)[];

/** Series of everything together. Without one: `absent` for each time. */
export function valuesOf({ times, series }: MetricsSeries, name: string, absent: number | null = null): Values {
  return (
    series.find((one) => one.name === name && Object.keys(one.labels).length === 0)?.values ?? times.map(() => absent)
  );
}

/** Series of that name with their labels: of each GPU, host, model or account. */
export const linesOf = ({ series }: MetricsSeries, name: string) => series.filter((one) => one.name === name);

/** Sums are 0 where nothing happened. */
export const countsOf = (of: MetricsSeries, name: string): readonly number[] =>
  valuesOf(of, name, 0).map((value) => value ?? 0);

export const sumOf = (of: MetricsSeries, name: string): number =>
  countsOf(of, name).reduce((sum, value) => sum + value, 0);

/** Per second. */
export const rates = ({ step_seconds: seconds }: MetricsSeries, values: Values): Values =>
  values.map((value) => (value === null ? null : value / seconds));

/** Mean of a percentile over the points, each counted as often as it had requests. Undefined: never measured. */
export function typicalOf(of: MetricsSeries, name: string): number | undefined {
  const weights = countsOf(of, "requests");
  let sum = 0;
  let weight = 0;
  for (const [at, value] of valuesOf(of, name).entries()) {
    if (value === null) continue;
    const own = Math.max(weights[at] ?? 0, 1);
    sum += value * own;
    weight += own;
  }
  return weight === 0 ? undefined : sum / weight;
}
