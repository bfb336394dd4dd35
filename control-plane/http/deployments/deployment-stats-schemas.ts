import { Type } from "typebox";

const count = (description: string) => Type.Integer({ description });
const figure = (description: string) => Type.Number({ description });

const failed = "Failed requests, including those that the model server refused";

export const StatsRange = Type.Object({
  from: Type.Optional(Type.String({ description: "Unix seconds, or now-5h (s, m, h, d, w, M); default five hours" })),
  to: Type.Optional(Type.String({ description: "Unix seconds or now, which is the default" })),
});

export const RequestCounts = Type.Array(Type.Object({ model_name: Type.String(), requests: Type.Integer() }));

export const DeploymentStats = Type.Object({
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
export const DeploymentStats2 = Type.Object({
  llm: Type.Union([Llm, Type.Null()]),
  embeddings: Type.Union([Timed, Type.Null()]),
  time: Type.Union([Timed, Type.Null()]),
});

export const usualSteps = 48;

export const SeriesRange = Type.Object({
  ...StatsRange.properties,
  steps: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 500, default: usualSteps, description: "Equal parts of the period" }),
  ),
});

const quantiles = (description: string) =>
  Type.Union([Type.Object({ p50: Type.Number(), p95: Type.Number() }), Type.Null()], { description });

export const DeploymentSeries = Type.Object({
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
