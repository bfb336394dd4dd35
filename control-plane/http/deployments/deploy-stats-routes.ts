import { type Static, Type } from "typebox";
import type { DeploymentId } from "../../../proto/ids.ts";
import { nano, toUsd } from "../../../proto/money.ts";
import type { Deployment } from "../../deployments/deployment.ts";
import type { UseSeries, UseStats } from "../../deployments/store.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { badRange, readRange } from "../core/read-range.ts";
import type { DeploymentFeatures } from "./features.ts";

const count = (description: string) => Type.Integer({ description });
const figure = (description: string) => Type.Number({ description });

const failed = "Failed requests, including those that the model server refused";

const StatsRange = Type.Object({
  from: Type.Optional(
    Type.String({ maxLength: 40, description: "Unix seconds, or now-5h (s, m, h, d, w, M); default five hours" }),
  ),
  to: Type.Optional(Type.String({ maxLength: 40, description: "Unix seconds or now, which is the default" })),
});

const RequestCounts = Type.Array(Type.Object({ model_name: Type.String(), requests: Type.Integer() }));

const DeploymentStats = Type.Object({
  requests: count("Admitted requests"),
  total_time: figure("Seconds, all requests together"),
  total_tokens: count("Input and output"),
  input_tokens: count("Cached ones included"),
  output_tokens: count("Reasoning included"),
  total_amount: figure("Cents, GPU time included"),
  avg_time: figure("Milliseconds of a request"),
  avg95_time: figure("Milliseconds, 95th percentile"),
  errors: count(failed),
});

const Llm = Type.Object({
  requests: Type.Integer(),
  input_tokens: Type.Integer(),
  output_tokens: Type.Integer(),
  avg_ttft_ms: figure("Time to the first token"),
  avg95_ttft_ms: Type.Number(),
  avg_tpt_ms: figure("Time per token after the first"),
  avg95_tpt_ms: Type.Number(),
  total_amount_cents: Type.Number(),
  errors: count(failed),
});
const Timed = Type.Object({
  requests: Type.Integer(),
  input_tokens: Type.Integer(),
  avg_time_ms: Type.Number(),
  avg95_time_ms: Type.Number(),
  total_amount_cents: Type.Number(),
  errors: count(failed),
});
const DeploymentStats2 = Type.Object({
  llm: Type.Union([Llm, Type.Null()]),
  embeddings: Type.Union([Timed, Type.Null()]),
  time: Type.Union([Timed, Type.Null()]),
});

const usualSteps = 48;

const SeriesRange = Type.Object({
  ...StatsRange.properties,
  steps: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 500, default: usualSteps, description: "Equal parts of the period" }),
  ),
});

const quantiles = (description: string) =>
  Type.Union([Type.Object({ p50: Type.Number(), p95: Type.Number() }), Type.Null()], { description });

const DeploymentSeries = Type.Object({
  step_seconds: figure("Length of a part"),
  steps: Type.Array(
    Type.Object({
      from: figure("Start in unix seconds"),
      requests: count("Requests admitted in this part"),
      errors: count(failed),
      output_tokens: count("Reasoning included"),
      first_byte_ms: quantiles("Time to the first byte, including the queue; null: none"),
      total_ms: quantiles("Duration of requests; null: none"),
      queue_ms_p95: Type.Union([Type.Number(), Type.Null()], { description: "Time in the queue" }),
    }),
  ),
  end_reasons: Type.Record(Type.String(), Type.Integer(), {
    description: "Requests by why they ended: stop, client_gone, refused, engine_error, engine_timeout, drained, lost",
  }),
});

const common = { query: StatsRange } as const;

export function addDeployStatsRoutes(endpoints: Endpoints, { deployments }: DeploymentFeatures): void {
  const own = endpoints.with({ tag: "deployments", access: "key" });

  own.get("/deploy/stats", {
    isOpenToOperators: true,
    ...common,
    summary: "Count requests of each deployment of the account",
    answer: RequestCounts,
    refusals: [429],
    async handler({ caller, query }) {
      const { fromMs, toMs } = readRange(query.from, query.to, Date.now());
      const counts = await deployments.requestCounts(caller, fromMs, toMs);
      return counts.map(({ modelName, requests }) => ({ model_name: modelName, requests }));
    },
  });

  own.get("/deploy/:deploy_id/stats", {
    isOpenToOperators: true,
    ...common,
    summary: "Get usage of a deployment",
    answer: DeploymentStats,
    refusals: [404, 410, 429],
    async handler({ caller, query, params }) {
      const { fromMs, toMs } = readRange(query.from, query.to, Date.now());
      return renderStats((await deployments.use(caller, params.deploy_id as DeploymentId, fromMs, toMs)).use);
    },
  });

  own.get("/deploy/:deploy_id/stats2", {
    isOpenToOperators: true,
    ...common,
    summary: "Get usage of a deployment by kind of task",
    answer: DeploymentStats2,
    refusals: [404, 410, 429],
    async handler({ caller, query, params }) {
      const { fromMs, toMs } = readRange(query.from, query.to, Date.now());
      const { deployment, use } = await deployments.use(caller, params.deploy_id as DeploymentId, fromMs, toMs);
      return renderStats2(deployment, use);
    },
  });

  own.get("/v1/deployments/:deploy_id/series", {
    isOpenToOperators: true,
    ...common,
    summary: "Get requests, failures and latencies of a deployment over time, and why requests ended",
    query: SeriesRange,
    answer: DeploymentSeries,
    refusals: [404, 410, 429],
    async handler({ caller, query, params }) {
      const { fromMs, toMs } = readRange(query.from, query.to, Date.now());
      if (fromMs === toMs) throw badRange("from", "must be before `to`.");
      const steps = query.steps ?? usualSteps;
      return renderSeries(
        await deployments.series(caller, params.deploy_id as DeploymentId, fromMs, toMs, steps),
        (toMs - fromMs) / steps,
      );
    },
  });
}

const centsOf = (use: UseStats) => Number((Number(toUsd(nano(use.chargeNano))) * 100).toFixed(7));
const rounded = (ms: number) => Math.round(ms * 100) / 100;

function renderStats(use: UseStats): Static<typeof DeploymentStats> {
  return {
    requests: use.requests,
    total_time: use.totalMs / 1000,
    total_tokens: use.inputTokens + use.outputTokens,
    input_tokens: use.inputTokens,
    output_tokens: use.outputTokens,
    total_amount: centsOf(use),
    avg_time: rounded(use.averageMs),
    avg95_time: rounded(use.p95Ms),
    errors: use.errors,
  };
}

/** Only the part of the deployment's task is set. */
function renderStats2({ task }: Pick<Deployment, "task">, use: UseStats): Static<typeof DeploymentStats2> {
  const { requests, errors } = use;
  const money = { total_amount_cents: centsOf(use), errors };
  const timed = {
    requests,
    input_tokens: use.inputTokens,
    avg_time_ms: rounded(use.averageMs),
    avg95_time_ms: rounded(use.p95Ms),
    ...money,
  };
  const isLlm = task === "text-generation";
  const isEmbeddings = task === "embeddings" || task === "reranker";
  return {
    llm: isLlm
      ? {
          requests,
          input_tokens: use.inputTokens,
          output_tokens: use.outputTokens,
          avg_ttft_ms: rounded(use.averageFirstMs),
          avg95_ttft_ms: rounded(use.p95FirstMs),
          avg_tpt_ms: rounded(use.averageTokenMs),
          avg95_tpt_ms: rounded(use.p95TokenMs),
          ...money,
        }
      : null,
    embeddings: isEmbeddings ? timed : null,
    time: isLlm || isEmbeddings ? null : timed,
  };
}

function renderSeries({ steps, endReasons }: UseSeries, stepMs: number): Static<typeof DeploymentSeries> {
  const quantiles = (both: { readonly p50: number; readonly p95: number } | null) =>
    both && { p50: rounded(both.p50), p95: rounded(both.p95) };
  return {
    step_seconds: stepMs / 1000,
    steps: steps.map((step) => ({
      from: step.fromMs / 1000,
      requests: step.requests,
      errors: step.errors,
      output_tokens: step.outputTokens,
      first_byte_ms: quantiles(step.firstMs),
      total_ms: quantiles(step.totalMs),
      queue_ms_p95: step.queueP95Ms === null ? null : rounded(step.queueP95Ms),
    })),
    end_reasons: Object.fromEntries(endReasons.map(({ reason, requests }) => [reason, requests])),
  };
}
