// Requests and responses of rerankers, scorers and moderation.
import { type Static, Type } from "typebox";
import { ModelName as model, nullable } from "./sampling-schemas.ts";
import { maxInputs } from "./tasks-schemas.ts";

const text = { type: "string", minLength: 1 };
const texts = { type: "array", minItems: 1, maxItems: maxInputs, items: text };
const user = Type.Optional(nullable.string());

const usage = Type.Object({
  prompt_tokens: Type.Integer(),
  total_tokens: Type.Integer(),
  estimated_cost: Type.Number({ description: "USD" }),
});

export const RerankRequest = Type.Object({
  model,
  query: Type.String({ minLength: 1 }),
  documents: Type.Unsafe<readonly (string | { readonly text: string })[]>({
    type: "array",
    minItems: 1,
    maxItems: maxInputs,
    description: "Texts, or objects with `text`",
    items: { anyOf: [text, { type: "object", required: ["text"], properties: { text } }] },
  }),
  top_n: Type.Optional(nullable.integer({ minimum: 1, description: "null: all documents" })),
  return_documents: Type.Optional(nullable.boolean({ default: false })),
  instruction: Type.Optional(nullable.string()),
  user,
});
export type RerankRequest = Static<typeof RerankRequest>;

export const RerankAnswer = Type.Object({
  id: Type.String(),
  object: Type.Literal("list"),
  model: Type.String(),
  results: Type.Array(
    Type.Object({
      index: Type.Integer({ description: "Position in `documents`" }),
      relevance_score: Type.Number(),
      document: Type.Optional(Type.Object({ text: Type.String() })),
    }),
    { description: "The most relevant first" },
  ),
  usage,
  meta: Type.Object({ billed_units: Type.Object({ search_units: Type.Integer(), input_tokens: Type.Integer() }) }),
});

export const ScoreRequest = Type.Object({
  model,
  text_1: Type.Unsafe<string | readonly string[]>({
    anyOf: [text, texts],
    description: "One text for all of `text_2`, or one for each",
  }),
  text_2: Type.Unsafe<string | readonly string[]>({ anyOf: [text, texts] }),
  user,
});
export type ScoreRequest = Static<typeof ScoreRequest>;

export const ScoreAnswer = Type.Object({
  id: Type.String(),
  object: Type.Literal("list"),
  created: Type.Integer({ description: "Unix seconds" }),
  model: Type.String(),
  data: Type.Array(Type.Object({ index: Type.Integer(), object: Type.Literal("score"), score: Type.Number() })),
  usage,
});

const maxModerated = 128;
const textPart = {
  type: "object",
  required: ["type", "text"],
  properties: { type: { type: "string", enum: ["text"] }, text: { type: "string" } },
};

export const ModerationRequest = Type.Object({
  model: Type.Optional(nullable.string({ description: "null, or a name of OpenAI's: the installation's classifier" })),
  input: Type.Unsafe<string | readonly (string | { readonly text: string })[]>({
    description: "A text, up to 128 texts, or text parts",
    anyOf: [
      text,
      { type: "array", minItems: 1, maxItems: maxModerated, items: text },
      { type: "array", minItems: 1, maxItems: maxModerated, items: textPart },
    ],
  }),
});
export type ModerationRequest = Static<typeof ModerationRequest>;

export const ModerationAnswer = Type.Object({
  id: Type.String(),
  model: Type.String(),
  results: Type.Array(
    Type.Object({
      flagged: Type.Boolean(),
      categories: Type.Unsafe<Record<string, boolean>>({ type: "object", additionalProperties: { type: "boolean" } }),
      category_scores: Type.Unsafe<Record<string, number>>({
        type: "object",
        additionalProperties: { type: "number" },
      }),
      category_applied_input_types: Type.Unsafe<Record<string, string[]>>({
        type: "object",
        additionalProperties: { type: "array", items: { type: "string" } },
      }),
    }),
  ),
});
