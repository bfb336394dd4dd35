// Fields that completions and chat have in common, with the bounds of the interface.
import { type TSchema, Type } from "typebox";

type Bounds = Readonly<Record<string, unknown>>;

export const nullable = {
  integer: (bounds: Bounds = {}) => Type.Unsafe<number | null>({ type: ["integer", "null"], ...bounds }),
  number: (bounds: Bounds = {}) => Type.Unsafe<number | null>({ type: ["number", "null"], ...bounds }),
  string: (bounds: Bounds = {}) => Type.Unsafe<string | null>({ type: ["string", "null"], ...bounds }),
  boolean: (bounds: Bounds = {}) => Type.Unsafe<boolean | null>({ type: ["boolean", "null"], ...bounds }),
  object: (bounds: Bounds = {}) => Type.Unsafe<Record<string, unknown> | null>({ type: ["object", "null"], ...bounds }),
  array: (items: TSchema, bounds: Bounds = {}) =>
    Type.Unsafe<unknown[] | null>({ type: ["array", "null"], items, ...bounds }),
};

/** An unknown name is 404, not 422. */
export const ModelName = Type.String({ minLength: 1 });

const tokens = { exclusiveMinimum: 0, maximum: 1_000_000 };

export const sampling = {
  max_tokens: Type.Optional(
    nullable.integer({ ...tokens, description: "null: what the context leaves, at most 16384" }),
  ),
  max_completion_tokens: Type.Optional(nullable.integer({ ...tokens, description: "An alias of max_tokens" })),
  temperature: Type.Optional(nullable.number({ minimum: 0, maximum: 2, default: 1 })),
  top_p: Type.Optional(nullable.number({ exclusiveMinimum: 0, maximum: 1, default: 1 })),
  min_p: Type.Optional(nullable.number({ minimum: 0, maximum: 1, default: 0 })),
  top_k: Type.Optional(nullable.integer({ minimum: 0, default: 0 })),
  n: Type.Optional(nullable.integer({ minimum: 1, maximum: 4, default: 1 })),
  stream: Type.Optional(nullable.boolean({ default: false })),
  stop: Type.Optional(
    Type.Unsafe<string | string[] | null>({
      anyOf: [{ type: ["string", "null"] }, { type: "array", items: { type: "string" }, maxItems: 16 }],
    }),
  ),
  presence_penalty: Type.Optional(nullable.number({ minimum: -2, maximum: 2, default: 0 })),
  frequency_penalty: Type.Optional(nullable.number({ minimum: -2, maximum: 2, default: 0 })),
  repetition_penalty: Type.Optional(nullable.number({ minimum: 0.01, maximum: 5, default: 1 })),
  user: Type.Optional(nullable.string()),
  safety_identifier: Type.Optional(nullable.string({ description: "The end user, instead of user" })),
  seed: Type.Optional(
    nullable.integer({
      minimum: -(2 ** 63),
      exclusiveMaximum: 2 ** 64,
      description: "-2^63 up to, not including, 2^64",
    }),
  ),
  stream_options: Type.Optional(
    nullable.object({
      properties: {
        include_usage: { type: ["boolean", "null"], default: true },
        continuous_usage_stats: { type: ["boolean", "null"], default: false },
      },
    }),
  ),
  stop_token_ids: Type.Optional(nullable.array(Type.Integer())),
  prompt_cache_key: Type.Optional(nullable.string()),
  prompt_cache_options: Type.Optional(
    nullable.object({ properties: { mode: { type: "string" }, ttl: { type: "string", enum: ["5m", "1h"] } } }),
  ),
  ignore_eos: Type.Optional(nullable.boolean()),
  service_tier: Type.Optional(nullable.string()),
  fail_fast: Type.Optional(nullable.boolean()),
  models: Type.Optional(nullable.array(Type.String(), { minItems: 1, maxItems: 4 })),
};
