import { type Static, Type } from "typebox";
import { type ServerApi, serverApis } from "../../../proto/api-formats.ts";
import { maxBatchSize } from "../../../proto/batch-size.ts";
import type { TargetState } from "../../inference/target-health.ts";
import { nullable } from "../inference/sampling-schemas.ts";

/** Tasks of OpenAI-compatible servers. */
const externalTasks = [
  "text-generation",
  "embeddings",
  "reranker",
  "automatic-speech-recognition",
  "text-to-speech",
  "text-to-image",
] as const;

const usd = (description: string, maximum = 1_000_000) => Type.Number({ minimum: 0, maximum, description });

/** Prices that the operator pays the provider. */
const Costs = Type.Object(
  {
    input: Type.Optional(usd("USD per million prompt tokens")),
    cached_input: Type.Optional(usd("USD per million cached prompt tokens; default: as input")),
    output: Type.Optional(usd("USD per million generated tokens")),
    request: Type.Optional(usd("USD per request that ran", 1_000)),
  },
  { additionalProperties: false },
);
export type Costs = Static<typeof Costs>;

const usdLimit = (period: string) =>
  Type.Optional(
    nullable.number({
      minimum: 0,
      maximum: 1e9,
      description: `USD per ${period}, UTC; null: no limit, 0: no requests`,
    }),
  );

const terms = {
  costs: Type.Optional(Costs),
  monthly_limit: usdLimit("calendar month"),
  daily_limit: usdLimit("day"),
};

/** Omitted prices are 0, omitted limits are removed. */
export const ExternalTerms = Type.Object(terms, { additionalProperties: false });
export type ExternalTerms = Static<typeof ExternalTerms>;

const Spending = Type.Object({
  limit: nullable.number({ description: "USD; null: no limit" }),
  spent: Type.Number({ description: "USD" }),
  left: nullable.number({ description: "USD; null: no limit" }),
});

export const ExternalAnswer = Type.Object({
  deploy_id: Type.String(),
  model_name: Type.String(),
  url: Type.String(),
  format: Type.Unsafe<ServerApi>({ type: "string", enum: [...serverApis] }),
  status: Type.String(),
  costs: Type.Object({
    input: Type.Number(),
    cached_input: Type.Number(),
    output: Type.Number(),
    request: Type.Number(),
  }),
  month: Spending,
  day: Spending,
  health: Type.Object({
    state: Type.Unsafe<TargetState["state"]>({
      type: "string",
      enum: ["closed", "open", "half_open"],
      description:
        "As this control plane sees it. open: it receives no requests; half_open: one, to see whether it answers",
    }),
    reason: nullable.string({ enum: ["key_refused", "rate_limited", "failing", null] }),
    seconds_left: Type.Integer({ description: "Until the next request is sent" }),
    failures: Type.Integer({ description: "In a row" }),
  }),
});
export const ExternalList = Type.Object({
  servers: Type.Array(ExternalAnswer),
  has_more: Type.Boolean({ description: "There are more than these 500" }),
});

export const ExternalServer = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 225 }),
  format: Type.Optional(
    Type.Unsafe<ServerApi>({
      type: "string",
      enum: [...serverApis],
      default: "openai",
      description:
        "anthropic: it is called at /v1/messages, with x-api-key; anthropic-2026-10-21: the same without sampling parameters; tei: text-embeddings-inference, with task embeddings or reranker. Set once: not changed by PUT",
    }),
  ),
  url: Type.String({ minLength: 1, maxLength: 2048, description: "Address for the host's agent" }),
  host_id: Type.Optional(nullable.string({ description: "Id or name of the host; default: any live host" })),
  served_name: Type.Optional(nullable.string({ description: "Model name on that server" })),
  max_batch_size: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: maxBatchSize,
      description:
        "Maximum concurrent requests. Default: as many as the server reports (llama.cpp's slots, max_concurrent_requests of text-embeddings-inference), else 96",
    }),
  ),
  context_length: Type.Optional(nullable.integer({ minimum: 1 })),
  task: Type.Optional(
    nullable.string({
      enum: [...externalTasks, null],
      default: "text-generation",
      description: "Task of the model; decides which endpoints it serves",
    }),
  ),
  api_key: Type.Optional(
    nullable.string({
      pattern: "^[!-~]+$",
      maxLength: 4096,
      description: "Sent to the server as a bearer token, or as x-api-key. Stored encrypted, never shown",
    }),
  ),
  ...terms,
});
