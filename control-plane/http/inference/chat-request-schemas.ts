import { type Static, Type } from "typebox";
import { Messages } from "./chat-messages-schemas.ts";
import { ModelName, nullable, sampling } from "./sampling-schemas.ts";
import { tagged } from "./tagged-schemas.ts";

const Tool = Type.Object({
  type: Type.Literal("function"),
  function: Type.Object({
    name: Type.String({ minLength: 1 }),
    description: Type.Optional(nullable.string()),
    parameters: Type.Optional(nullable.object()),
  }),
  cache_control: Type.Optional(nullable.object()),
});

const ToolChoice = Type.Unsafe<unknown>({
  anyOf: [
    { type: ["string", "null"], enum: ["none", "auto", "required", null] },
    {
      type: "object",
      required: ["type", "function"],
      properties: {
        type: { const: "function" },
        function: { type: "object", required: ["name"], properties: { name: { type: "string", minLength: 1 } } },
      },
    },
  ],
});

const Format = tagged("type", {
  text: {},
  json_object: {},
  json_schema: {
    json_schema: {
      type: "object",
      required: ["schema"],
      properties: { name: { type: "string" }, schema: { type: "object" } },
    },
  },
  regex: { regex: { type: "string", minLength: 1 } },
});

/** Engines know other types as well, whose size is not measured (`check-format.ts`). */
export const ResponseFormat = Type.Unsafe<Record<string, unknown> | null>({ anyOf: [Format, { type: "null" }] });

export const reasoningEfforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

export const ChatRequest = Type.Object({
  // An unknown name is 404, not 422.
  model: ModelName,
  messages: Messages,
  ...sampling,
  tools: Type.Optional(nullable.array(Tool)),
  tool_choice: Type.Optional(ToolChoice),
  parallel_tool_calls: Type.Optional(nullable.boolean()),
  response_format: Type.Optional(ResponseFormat),
  logprobs: Type.Optional(nullable.boolean()),
  top_logprobs: Type.Optional(nullable.integer({ minimum: 0, maximum: 20 })),
  chat_template_kwargs: Type.Optional(nullable.object()),
  reasoning_effort: Type.Optional(nullable.string({ enum: [...reasoningEfforts, null] })),
  reasoning: Type.Optional(
    nullable.object({
      properties: {
        effort: { type: ["string", "null"], enum: [...reasoningEfforts, null] },
        enabled: { type: ["boolean", "null"] },
      },
    }),
  ),
  continue_final_message: Type.Optional(nullable.boolean()),
});
export type ChatRequest = Static<typeof ChatRequest>;
