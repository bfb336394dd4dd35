// One event of a stream of completions, in OpenAI's format.
import { Type } from "typebox";
import { nullable } from "./sampling-schemas.ts";

const usage = Type.Optional(
  nullable.object({
    required: ["prompt_tokens", "completion_tokens", "total_tokens", "estimated_cost"],
    properties: {
      prompt_tokens: { type: "integer" },
      completion_tokens: { type: "integer" },
      total_tokens: { type: "integer" },
      estimated_cost: { type: "number", description: "USD" },
    },
  }),
);

const chunk = (object: string, choice: { readonly required: readonly string[]; readonly properties: object }) =>
  Type.Object({
    id: Type.String(),
    object: Type.Literal(object),
    created: Type.Integer({ description: "Unix seconds" }),
    model: Type.String(),
    choices: Type.Array(Type.Unsafe<unknown>({ type: "object", ...choice }), {
      description: "Empty in the extra event that contains only usage",
    }),
    usage,
  });

const finishReason = (...reasons: readonly string[]) => ({ type: ["string", "null"], enum: [...reasons, null] });

export const CompletionChunk = chunk("text_completion", {
  required: ["index", "text"],
  properties: {
    index: { type: "integer" },
    text: { type: "string" },
    logprobs: { type: ["object", "null"] },
    finish_reason: finishReason("stop", "length"),
  },
});

export const ChatChunk = chunk("chat.completion.chunk", {
  required: ["index", "delta"],
  properties: {
    index: { type: "integer" },
    delta: {
      type: "object",
      properties: {
        role: { type: ["string", "null"] },
        content: { type: ["string", "null"] },
        reasoning_content: { type: ["string", "null"] },
        tool_calls: { type: "array", items: { type: "object" } },
      },
    },
    logprobs: { type: ["object", "null"] },
    finish_reason: finishReason("stop", "length", "tool_calls"),
  },
});
