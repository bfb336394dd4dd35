// Time series of requests and hosts: an account's own, and those of the whole installation for operators.
import { type Static, Type } from "typebox";
import type { AccountId } from "../../../proto/ids.ts";
import { maxPoints, maxSeries, type SeriesAnswer, seriesNames, steps } from "../../series/series.ts";
import { invalid } from "../../service-error.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { readRange } from "../core/read-range.ts";
import type { OperatorFeatures } from "./features.ts";

const time = (description: string) => Type.Optional(Type.String({ maxLength: 40, description }));
const range = {
  from: time("Unix seconds, or now-24h (s, m, h, d, w, M), which is the default; at most 90 days before `to`"),
  to: time("Unix seconds, or now, which is the default"),
  step: Type.Optional(
    Type.Integer({
      minimum: 60,
      maximum: 86_400,
      description: `Seconds of a point: ${steps.join(", ")}. At most ${maxPoints} points; at least 600 where the range begins more than a day ago, 21600 where more than 14 days ago. Default: at most 200 points`,
    }),
  ),
  names: Type.Optional(Type.String({ maxLength: 500, description: "Comma list of series; default: all" })),
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: maxSeries, default: 10, description: "With `by`: accounts, models or hosts" }),
  ),
};

const OwnQuery = Type.Object({
  ...range,
  by: Type.Optional(
    Type.Unsafe<"model">({ type: "string", enum: ["model"], description: "Models with the most requests" }),
  ),
  model: Type.Optional(Type.String({ maxLength: 200, description: "Only requests of this model" })),
});

const dimensions = ["fleet", "account", "model", "host", "gpu"] as const;
const AdminQuery = Type.Object({
  ...range,
  by: Type.Optional(
    Type.Unsafe<(typeof dimensions)[number]>({
      type: "string",
      enum: [...dimensions],
      default: "fleet",
      description: "fleet: requests and hosts together; gpu: GPUs of the host `node`",
    }),
  ),
  account: Type.Optional(Type.String({ maxLength: 64, description: "uid: only its requests" })),
  model: OwnQuery.properties.model,
  node: Type.Optional(Type.String({ maxLength: 64, description: "Id or name of a host: only this host" })),
});

const SeriesColumns = Type.Object({
  step_seconds: Type.Integer(),
  times: Type.Array(Type.Number(), { description: "Starts of the points, Unix seconds" }),
  series: Type.Array(
    Type.Object({
      name: Type.String({
        description:
          "Sums of a point: requests, errors_4xx, errors_5xx, aborted, input_tokens, output_tokens, spend_usd. Percentiles: ttft_p50_ms, ttft_p95_ms, ttft_p99_ms (streams), total_p50_ms, total_p95_ms, total_p99_ms. Means of hosts and GPUs: gpus, gpus_held, gpu_use_ratio, gpu_memory_used_bytes, gpu_memory_total_bytes, gpu_power_watts, cpu_use_ratio, memory_used_bytes, running_requests; maxima: gpu_temperature_celsius, waiting_requests",
      }),
      labels: Type.Record(Type.String(), Type.String(), {
        description:
          "account, model, host or gpu, as `by` divides; name: e-mail address of the account, name of the host",
      }),
      values: Type.Array(Type.Union([Type.Number(), Type.Null()]), { description: "One per time; null: not measured" }),
    }),
  ),
});

export function addSeriesRoutes(endpoints: Endpoints, { series, hosts }: OperatorFeatures): void {
  endpoints.with({ tag: "account", access: "key" }).get("/v1/metrics/series", {
    isOpenToOperators: true,
    summary: "Get requests, errors, tokens, spend and latencies of the account over time",
    query: OwnQuery,
    answer: SeriesColumns,
    refusals: [429],
    async handler({ caller, query }) {
      const { by, model, limit } = query;
      return rendered(
        await series.requests(
          caller.operator ?? caller.account,
          { account: caller.account, by, model, limit },
          rangeOf(query),
        ),
        query,
      );
    },
  });

  endpoints.with({ tag: "operator", access: "admin" }).get("/v1/admin/metrics/series", {
    summary: "Get requests, errors, tokens, spend, latencies and use of GPUs over time",
    query: AdminQuery,
    answer: SeriesColumns,
    refusals: [404, 429],
    async handler({ caller, query }) {
      const { by = "fleet", model, limit } = query;
      const reader = caller.account;
      const asked = rangeOf(query);
      const host = query.node === undefined ? undefined : await hosts.idOf(query.node);
      if (by === "gpu") {
        if (host === undefined)
          throw invalid("host_missing", "`by=gpu` needs `node`, the id or name of a host.", {
            param: "node",
            in: "query",
          });
        return rendered(await series.gpus(reader, host, asked), query);
      }
      if (by === "host" || host !== undefined)
        return rendered(await series.hosts(reader, { by: "host", host, limit }, asked), query);
      const account = query.account as AccountId | undefined;
      const filter = { account, model, limit, ...(by === "fleet" ? {} : { by }) };
      const requests = await series.requests(reader, filter, asked);
      if (by !== "fleet" || account !== undefined || model !== undefined) return rendered(requests, query);
      const machines = await series.hosts(reader, { by: "fleet" }, asked);
      return rendered({ ...requests, series: [...requests.series, ...machines.series] }, query);
    },
  });
}

interface RangeQuery {
  readonly from?: string;
  readonly to?: string;
  readonly step?: number;
}

function rangeOf({ from, to, step }: RangeQuery) {
  const { fromMs, toMs } = readRange(from ?? (to ? undefined : "now-24h"), to, Date.now());
  return { fromMs, toMs, stepSeconds: step };
}

function rendered(
  { stepSeconds, times, series }: SeriesAnswer,
  { names }: { readonly names?: string },
): Static<typeof SeriesColumns> {
  const wanted = names === undefined ? undefined : new Set(names.split(",").map((name) => name.trim()));
  const unknown = wanted && [...wanted].find((name) => !seriesNames.has(name));
  if (unknown !== undefined)
    throw invalid(
      "unknown_series",
      `Unknown series ${JSON.stringify(unknown)}. Series: ${[...seriesNames].join(", ")}.`,
      {
        param: "names",
        in: "query",
      },
    );
  return {
    step_seconds: stepSeconds,
    times: [...times],
    series: series
      .filter(({ name }) => wanted?.has(name) ?? true)
      .map(({ name, labels, values }) => ({ name, labels: { ...labels }, values: [...values] })),
  };
}
