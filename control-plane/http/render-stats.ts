import type { Static } from "typebox";
import { nano, toUsd } from "../../proto/money.ts";
import type { Deployment } from "../deployments/deployment.ts";
import type { UseSeries, UseStats } from "../deployments/store.ts";
import type { DeploymentSeries, DeploymentStats, DeploymentStats2 } from "./schemas/deployment-stats.ts";

const centsOf = (use: UseStats) => Number((Number(toUsd(nano(use.chargeNano))) * 100).toFixed(7));
const rounded = (ms: number) => Math.round(ms * 100) / 100;

export function renderStats(use: UseStats): Static<typeof DeploymentStats> {
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

/** The one part that fits the deployment's task. */
export function renderStats2({ task }: Pick<Deployment, "task">, use: UseStats): Static<typeof DeploymentStats2> {
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

export function renderSeries({ steps, endReasons }: UseSeries, stepMs: number): Static<typeof DeploymentSeries> {
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
