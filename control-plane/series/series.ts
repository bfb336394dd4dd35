// Time series of requests and hosts for one range, as columns.
import type { AccountId, HostId } from "../../proto/ids.ts";
import { invalid } from "../service-error.ts";
import { type Histogram, quantile } from "./histogram.ts";
import { keptMs } from "./kept.ts";
import {
  type HostFigures,
  type RequestPoint,
  type Resolution,
  resolutions,
  type SeriesStore,
  type Window,
} from "./store.ts";

export interface SeriesRange {
  readonly fromMs: number;
  readonly toMs: number;
  /** Undefined: chosen by the length of the range. */
  readonly stepSeconds?: number | undefined;
}

export interface Series {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** One for each time; null: not measured. */
  readonly values: readonly (number | null)[];
}

export interface SeriesAnswer {
  readonly stepSeconds: number;
  /** Starts of the points, Unix seconds. */
  readonly times: readonly number[];
  readonly series: readonly Series[];
}

/** Lengths of a point in seconds. Each is a multiple of a resolution and divides a day. */
export const steps = [60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400] as const;
export const maxPoints = 500;
/** More often than needed on a screen; a day then consists of rows of 10 minutes. */
const usualPoints = 200;
const minRangeMs = 5 * 60_000;
const maxRangeMs = keptMs[360];
/** The start of a range may lie this much before the oldest kept row. */
const graceMs = 3_600_000;
export const maxSeries = 20;
const usualSeries = 10;

const bad = (param: string, message: string) => invalid("bad_range", message, { param, in: "query" });

/** Returns the points of a range. Throws `bad_range`, which names the limit. */
export function windowOf({ fromMs, toMs, stepSeconds }: SeriesRange, nowMs: number): Window {
  if (toMs - fromMs < minRangeMs) throw bad("from", "`from` must be at least 5 minutes before `to`.");
  if (toMs - fromMs > maxRangeMs + graceMs) throw bad("from", "`from` must be at most 90 days before `to`.");
  const finest = resolutions.find((minutes) => nowMs - fromMs <= keptMs[minutes] + graceMs) ?? 360;
  const allowed = steps.filter((step) => step >= finest * 60 && (toMs - fromMs) / (step * 1000) <= maxPoints);
  if (stepSeconds !== undefined && !(allowed as readonly number[]).includes(stepSeconds))
    throw bad(
      "step",
      `\`step\` must be one of ${allowed.join(", ")} seconds for this range: at most ${maxPoints} points, and points of at least ${finest * 60} seconds at its start.`,
    );
  const step =
    stepSeconds ?? allowed.find((one) => (toMs - fromMs) / (one * 1000) <= usualPoints) ?? (allowed.at(-1) as number);
  const stepMs = step * 1000;
  const resolution = resolutions.findLast((minutes) => step % (minutes * 60) === 0) as Resolution;
  return {
    fromMs: Math.floor(fromMs / stepMs) * stepMs,
    toMs: Math.ceil(toMs / stepMs) * stepMs,
    stepMs,
    resolution,
  };
}

/** How series of requests are divided and limited. */
export interface RequestQuery {
  readonly account?: AccountId | undefined;
  readonly model?: string | undefined;
  readonly by?: "account" | "model" | undefined;
  readonly limit?: number | undefined;
}

export interface HostQuery {
  readonly by: "fleet" | "host";
  readonly host?: HostId | undefined;
  readonly limit?: number | undefined;
}

export type SeriesReader = ReturnType<typeof createSeries>;

export function createSeries(deps: {
  readonly store: SeriesStore;
  /** Limits concurrent reports of a reader. */
  readonly reports: { run<T>(reader: AccountId, read: () => Promise<T>): Promise<T> };
  readonly unixMs?: () => number;
}) {
  const { store, reports, unixMs = Date.now } = deps;
  return {
    /** Series of requests; with `by`, those of the accounts or models with the most requests. Throws `bad_range`. */
    async requests(reader: AccountId, query: RequestQuery, range: SeriesRange): Promise<SeriesAnswer> {
      const { limit = usualSeries, ...filter } = query;
      const window = windowOf(range, unixMs());
      const points = await reports.run(reader, () => store.requests({ ...filter, limit }, window));
      const { by } = filter;
      return columns(window, points, requestValues, ({ label, name }) =>
        by ? { [by]: label, ...(name === null ? {} : { name }) } : {},
      );
    },

    /** Series of all hosts together, or of those with the most used GPUs. Throws `bad_range`. */
    async hosts(reader: AccountId, query: HostQuery, range: SeriesRange): Promise<SeriesAnswer> {
      const { by, host, limit = usualSeries } = query;
      const window = windowOf(range, unixMs());
      const points = await reports.run(reader, () => store.hosts(by, host, limit, window));
      return columns(window, points, hostValues, ({ host: id, name }) =>
        id === "" ? {} : { host: id, ...(name === null ? {} : { name }) },
      );
    },

    /** Series of each GPU of a host. Throws `bad_range`. */
    async gpus(reader: AccountId, host: HostId, range: SeriesRange): Promise<SeriesAnswer> {
      const window = windowOf(range, unixMs());
      const points = await reports.run(reader, () => store.gpus(host, window));
      return columns(window, points, gpuValues, ({ gpu }) => ({ host, gpu }));
    },
  };
}

type Values<Point> = Readonly<
  Record<string, { readonly of: (point: Point) => number | null; readonly none: 0 | null }>
>;

const count = (of: (point: RequestPoint) => number) => ({ of, none: 0 }) as const;
const percentile = (of: (point: RequestPoint) => Histogram, ratio: number) =>
  ({ of: (point: RequestPoint) => rounded(quantile(of(point), ratio)), none: null }) as const;
const percentiles = (name: string, of: (point: RequestPoint) => Histogram) =>
  Object.fromEntries([50, 95, 99].map((n) => [`${name}_p${n}_ms`, percentile(of, n / 100)]));

const rounded = (value: number | null) => (value === null ? null : Math.round(value * 1000) / 1000);

const requestValues: Values<RequestPoint> = {
  requests: count((point) => point.requests),
  errors_4xx: count((point) => point.clientErrors),
  errors_5xx: count((point) => point.serverErrors),
  aborted: count((point) => point.aborted),
  input_tokens: count((point) => point.inputTokens),
  output_tokens: count((point) => point.outputTokens),
  spend_usd: count((point) => Number(point.spend) / 1e9),
  ...percentiles("ttft", (point) => point.firstMs),
  ...percentiles("total", (point) => point.totalMs),
};

const measured = <Point>(of: (point: Point) => number | null) =>
  ({ of: (point: Point) => rounded(of(point)), none: null }) as const;

const hostValues: Values<HostFigures> = {
  gpus: measured((point) => point.gpus),
  gpus_held: measured((point) => point.gpusHeld),
  gpu_use_ratio: measured((point) => point.gpuUse),
  gpu_memory_used_bytes: measured((point) => point.gpuMemoryUsed),
  gpu_memory_total_bytes: measured((point) => point.gpuMemoryTotal),
  gpu_power_watts: measured((point) => point.gpuPowerWatts),
  gpu_temperature_celsius: measured((point) => point.gpuTemperature),
  cpu_use_ratio: measured((point) => point.cpuUse),
  memory_used_bytes: measured((point) => point.memoryUsed),
  running_requests: measured((point) => point.running),
  waiting_requests: measured((point) => point.waiting),
};

const gpuValues: Values<{
  readonly use: number | null;
  readonly memoryUsed: number | null;
  readonly powerWatts: number | null;
  readonly temperature: number | null;
}> = {
  gpu_use_ratio: measured((point) => point.use),
  gpu_memory_used_bytes: measured((point) => point.memoryUsed),
  gpu_power_watts: measured((point) => point.powerWatts),
  gpu_temperature_celsius: measured((point) => point.temperature),
};

export const seriesNames: ReadonlySet<string> = new Set([requestValues, hostValues].flatMap(Object.keys));

function columns<Point extends { readonly atMs: number }>(
  { fromMs, toMs, stepMs }: Window,
  points: readonly Point[],
  values: Values<Point>,
  labelsOf: (point: Point) => Readonly<Record<string, string>>,
): SeriesAnswer {
  const length = Math.round((toMs - fromMs) / stepMs);
  const groups = Map.groupBy(points, (point) => JSON.stringify(labelsOf(point)));
  return {
    stepSeconds: stepMs / 1000,
    times: Array.from({ length }, (_, i) => (fromMs + i * stepMs) / 1000),
    series: [...groups].flatMap(([labels, own]) =>
      Object.entries(values).map(([name, { of, none }]) => {
        const column = Array.from<number | null>({ length }).fill(none);
        for (const point of own) column[(point.atMs - fromMs) / stepMs] = of(point);
        return { name, labels: JSON.parse(labels) as Record<string, string>, values: column };
      }),
    ),
  };
}
