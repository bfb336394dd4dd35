import { Type } from "typebox";

const count = (description: string) => Type.Integer({ description });
const figure = (description: string) => Type.Number({ description });

export const StatsRange = Type.Object({
  from: Type.Optional(Type.String({ description: "Unix seconds, or now-5h (s, m, h, d, w, M); default five hours" })),
  to: Type.Optional(Type.String({ description: "Unix seconds or now, which is the default" })),
});

export const RequestCounts = Type.Array(Type.Object({ model_name: Type.String(), requests: Type.Integer() }));

export const DeploymentStats = Type.Object({
  requests: count("Requests that were admitted"),
  total_time: figure("Seconds, all requests together"),
  total_tokens: count("Input and output"),
  input_tokens: count("Cached ones included"),
  output_tokens: count("Reasoning included"),
  total_amount: figure("Cents, GPU time included"),
  avg_time: figure("Milliseconds of a request"),
  avg95_time: figure("Milliseconds, 95th percentile"),
  errors: count("Requests that failed here"),
});

const Llm = Type.Object({
  requests: Type.Integer(),
  input_tokens: Type.Integer(),
  output_tokens: Type.Integer(),
  avg_ttft_ms: figure("To the first token"),
  avg95_ttft_ms: Type.Number(),
  avg_tpt_ms: figure("Per token after the first"),
  avg95_tpt_ms: Type.Number(),
  total_amount_cents: Type.Number(),
  errors: Type.Integer(),
});
const Timed = Type.Object({
  requests: Type.Integer(),
  input_tokens: Type.Integer(),
  avg_time_ms: Type.Number(),
  avg95_time_ms: Type.Number(),
  total_amount_cents: Type.Number(),
  errors: Type.Integer(),
});
export const DeploymentStats2 = Type.Object({
  llm: Type.Union([Llm, Type.Null()]),
  embeddings: Type.Union([Timed, Type.Null()]),
  time: Type.Union([Timed, Type.Null()]),
});
