import { type Static, Type } from "typebox";
import { ModelName, nullable, sampling } from "./sampling-schemas.ts";

export const CompletionRequest = Type.Object({
  // An unknown name is 404, not 422.
  model: ModelName,
  prompt: Type.String({ description: "A single string" }),
  ...sampling,
  logprobs: Type.Optional(nullable.integer({ minimum: 0 })),
  echo: Type.Optional(nullable.boolean()),
  best_of: Type.Optional(nullable.integer({ description: "Not supported: only null, 1 or the value of n" })),
  response_format: Type.Optional(
    Type.Unsafe<{ type: "text" } | null>({
      type: ["object", "null"],
      required: ["type"],
      properties: { type: { type: "string", enum: ["text"] } },
    }),
  ),
  return_tokens_as_token_ids: Type.Optional(nullable.boolean()),
  data: Type.Optional(nullable.object({ properties: { image: { type: "array", items: { type: "string" } } } })),
});
export type CompletionRequest = Static<typeof CompletionRequest>;

const Usage = Type.Object({
  prompt_tokens: Type.Integer(),
  completion_tokens: Type.Integer(),
  total_tokens: Type.Integer(),
  estimated_cost: Type.Number({ description: "USD" }),
  prompt_tokens_details: Type.Optional(Type.Object({ cached_tokens: Type.Integer() })),
  completion_tokens_details: Type.Optional(
    Type.Object({ reasoning_tokens: Type.Integer({ description: "Included in completion_tokens" }) }),
  ),
});

const answer = (object: string, choice: Record<string, unknown>) =>
  Type.Object({
    id: Type.String(),
    object: Type.Literal(object),
    created: Type.Integer({ description: "Unix seconds" }),
    model: Type.String(),
    choices: Type.Array(Type.Unsafe<unknown>({ type: "object", ...choice })),
    usage: Usage,
    service_tier: Type.Optional(Type.String({ description: "Tier that served the request, if the request named one" })),
  });

/** For the API description. */
export const CompletionAnswer = answer("text_completion", {
  properties: {
    index: { type: "integer" },
    text: { type: "string" },
    logprobs: { type: ["object", "null"] },
    finish_reason: { type: ["string", "null"], enum: ["stop", "length", null] },
  },
});

export const ChatAnswer = answer("chat.completion", {
  properties: {
    index: { type: "integer" },
    message: {
      type: "object",
      properties: {
        role: { type: "string" },
        content: { type: ["string", "null"] },
        reasoning_content: { type: ["string", "null"] },
        tool_calls: { type: "array", items: { type: "object" } },
      },
    },
    logprobs: { type: ["object", "null"] },
    finish_reason: { type: ["string", "null"], enum: ["stop", "length", "tool_calls", null] },
    stop_reason: { type: ["string", "integer", "null"], description: "Stop sequence or token that the engine found" },
  },
});
