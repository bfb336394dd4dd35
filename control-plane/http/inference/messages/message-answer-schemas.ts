import { type Static, Type } from "typebox";
import { nullable } from "../sampling-schemas.ts";

const Usage = Type.Object({
  input_tokens: Type.Integer({ description: "Without those read from the cache" }),
  cache_creation_input_tokens: Type.Integer({ description: "0: cached tokens have no price of their own to write" }),
  cache_read_input_tokens: Type.Integer(),
  output_tokens: Type.Integer(),
  output_tokens_details: Type.Object({ thinking_tokens: Type.Integer({ description: "Included in output_tokens" }) }),
  service_tier: Type.Unsafe<"standard" | "priority" | "batch">({
    type: "string",
    enum: ["standard", "priority", "batch"],
  }),
  cache_creation: Type.Null(),
  inference_geo: Type.Null(),
  server_tool_use: Type.Null(),
  speed: Type.Null(),
});
export type MessageUsage = Static<typeof Usage>;

const TextBlock = Type.Object({ type: Type.Literal("text"), text: Type.String() });
const ThinkingBlock = Type.Object({
  type: Type.Literal("thinking"),
  thinking: Type.String(),
  signature: Type.String({ description: "The text, sealed for the account. Return the block unchanged" }),
});
const ToolUseBlock = Type.Object({
  type: Type.Literal("tool_use"),
  id: Type.String(),
  name: Type.String(),
  input: Type.Unknown(),
  caller: Type.Object({ type: Type.Literal("direct") }),
});
export type AnswerBlock = Static<typeof TextBlock> | Static<typeof ThinkingBlock> | Static<typeof ToolUseBlock>;

export const stopReasons = ["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"] as const;
export type StopReason = (typeof stopReasons)[number];

/** Reply of the Messages API. Members that are always null belong to features of other servers. */
export const MessageAnswer = Type.Object({
  id: Type.String(),
  type: Type.Literal("message"),
  role: Type.Literal("assistant"),
  model: Type.String(),
  content: Type.Array(Type.Unsafe<AnswerBlock>(Type.Union([ThinkingBlock, TextBlock, ToolUseBlock]))),
  stop_reason: Type.Unsafe<StopReason | null>({ type: ["string", "null"], enum: [...stopReasons, null] }),
  stop_sequence: nullable.string({ description: "Null where the engine does not report which one it found" }),
  stop_details: Type.Null(),
  container: Type.Null(),
  diagnostics: Type.Null(),
  usage: Usage,
});
export type MessageAnswer = Static<typeof MessageAnswer>;

export const TokenCount = Type.Object({ input_tokens: Type.Integer() });
