// Usage of days and months as lines, totals and stacked series. One answer of the server serves grouping by model or key and their filters.
import type { Responses } from "../../proto/gen/responses.ts";
import { text } from "../text/usage.ts";

export type Days = Responses["GET /v1/usage/days"];
export type Months = Responses["GET /payment/usage"];
type Item = Days["days"][number]["items"][number];

export const groupings = ["model", "key", "project", "token"] as const;
export type Grouping = (typeof groupings)[number];

/** The server sums these by themselves, so they cannot be filtered by model or key. */
export const isOwnSum = (by: Grouping): by is "project" | "token" => by === "project" || by === "token";

interface Sums {
  readonly requests: number;
  readonly input: number;
  readonly output: number;
  /** USD. */
  readonly cost: number;
}

export interface Line extends Sums {
  /** YYYY-MM-DD; empty: of the whole period. */
  readonly day: string;
  readonly id: string;
  readonly name: string;
  /** USD; only of scoped tokens. */
  readonly limit: number | null;
}

export const metrics = ["cost", "requests", "tokens"] as const;
export type Metric = (typeof metrics)[number];

export const metricOf = (line: Sums, metric: Metric): number =>
  metric === "tokens" ? line.input + line.output : line[metric];

interface Filter {
  /** Empty: any. */
  readonly model: string;
  readonly key: string;
}

const keyText = (id: string, name: string | null): string => name || (id === "" ? text.noKey : text.revokedKey(id));

function nameOf(item: Item, by: Grouping): { readonly id: string; readonly name: string } {
  if (by === "key") return { id: item.key_id ?? "", name: keyText(item.key_id ?? "", item.key_name) };
  if (by === "project") return { id: item.id, name: item.name || text.noProject };
  return { id: item.id, name: by === "token" ? `${item.id.slice(0, 12)}…` : item.name || "–" };
}

/** Keys that were used, by id. */
export const keysIn = (days: Days): ReadonlyMap<string, string> =>
  new Map(
    days.days.flatMap(({ items }) =>
      items.map((item) => [item.key_id ?? "", keyText(item.key_id ?? "", item.key_name)] as const),
    ),
  );

export const modelsIn = (days: Days): readonly string[] => [
  ...new Set(days.days.flatMap(({ items }) => items.map(({ id }) => id))),
];

/** One line for each day and model, key, project or token. */
export function linesOf({ days }: Days, by: Grouping, { model, key }: Filter): readonly Line[] {
  return days.flatMap(({ day, items }) => {
    const lines = new Map<string, { -readonly [Name in keyof Line]: Line[Name] }>();
    for (const item of items) {
      if (!isOwnSum(by) && ((model !== "" && item.id !== model) || (key !== "" && item.key_id !== key))) continue;
      const { id, name } = nameOf(item, by);
      let line = lines.get(id);
      if (!line) {
        line = { ...nothing, day, id, name, limit: item.spending_limit };
        lines.set(id, line);
      }
      // An object for each of up to 20,000 items would take longer than everything else.
      line.requests += item.requests;
      line.input += item.input_tokens;
      line.output += item.output_tokens;
      line.cost += item.cost / 100;
    }
    return [...lines.values()];
  });
}

export const nothing: Sums = { requests: 0, input: 0, output: 0, cost: 0 };

function plus<Of extends Sums>(one: Of, more: Sums): Of {
  return {
    ...one,
    requests: one.requests + more.requests,
    input: one.input + more.input,
    output: one.output + more.output,
    cost: one.cost + more.cost,
  };
}

export const sumOf = (lines: readonly Line[]): Sums => lines.reduce(plus, nothing);

/** Totals of the whole period, the most expensive first. */
export function totalsOf(lines: readonly Line[]): readonly Line[] {
  const totals = new Map<string, Line>();
  for (const line of lines) {
    const before = totals.get(line.id);
    totals.set(line.id, before ? plus(before, line) : { ...line, day: "" });
  }
  return [...totals.values()].sort((a, b) => b.cost - a.cost || b.requests - a.requests);
}

export interface NamedSeries {
  readonly name: string;
  readonly values: readonly number[];
}

/** The largest ones over the period, and the sum of all others. One value for each of `days`. */
export function seriesOf(
  days: readonly string[],
  lines: readonly Line[],
  metric: Metric,
  maxSeries = 6,
): readonly NamedSeries[] {
  const position = new Map(days.map((day, index) => [day, index]));
  const largest = [...totalsOf(lines)].sort((a, b) => metricOf(b, metric) - metricOf(a, metric)).slice(0, maxSeries);
  const own = new Map(largest.map(({ id }, index) => [id, index]));
  const values = Array.from({ length: largest.length + 1 }, () => days.map(() => 0));
  for (const line of lines) {
    const at = position.get(line.day);
    const row = values[own.get(line.id) ?? largest.length];
    if (at !== undefined && row) row[at] = (row[at] ?? 0) + metricOf(line, metric);
  }
  const names = new Set<string>();
  const named = largest.map(({ name, id }, index) => {
    // Two keys may have had the same name.
    const unique = names.has(name) ? `${name} (${id})` : name;
    names.add(unique);
    return { name: unique, values: values[index] ?? [] };
  });
  const others = values[largest.length] ?? [];
  return others.some((value) => value !== 0) ? [...named, { name: text.other, values: others }] : named;
}

/** Unix seconds at which each day begins. */
export const timesOf = (days: readonly string[]): readonly number[] =>
  days.map((day) => Date.parse(`${day}T00:00:00Z`) / 1000);

/** First of `count` days that end today, UTC. */
export const firstDay = (count: number, nowMs: number): string =>
  new Date(nowMs - (count - 1) * 86_400_000).toISOString().slice(0, 10);

export interface MonthLine {
  readonly month: string;
  readonly of: string;
  readonly pricing: string;
  readonly discount: string;
  readonly units: number;
  /** USD. */
  readonly cost: number;
}

type MonthItem = Months["months"][number]["items"][number];

/** Sums of a month by `of`, kind of price and discount. */
export function monthLines({ months }: Pick<Months, "months">, of: (item: MonthItem) => string): readonly MonthLine[] {
  const lines = new Map<string, MonthLine>();
  for (const { period: month, items } of months)
    for (const item of items) {
      const { pricing_type: pricing, discount } = item;
      const key = [month, of(item), pricing, discount.name].join("\n");
      const before = lines.get(key);
      lines.set(key, {
        month,
        of: of(item),
        pricing,
        discount: discount.name,
        units: item.units + (before?.units ?? 0),
        cost: item.cost / 100 + (before?.cost ?? 0),
      });
    }
  return [...lines.values()];
}

/** USD at the end of the month at the pace so far. */
export function projected({ period, interval, total_cost: cost }: Months["months"][number], nowMs: number): number {
  const [year = 0, month = 1] = period.split(".").map(Number);
  const startMs = Date.UTC(year, month - 1);
  // Avoids a wild projection in the first hour of a month.
  const elapsedMs = Math.max(nowMs - startMs, 3_600_000);
  return (cost / 100) * Math.max(1, (interval.to - startMs) / elapsedMs);
}
