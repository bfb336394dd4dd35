import { Type } from "typebox";
import { tagged } from "./tagged-schemas.ts";

/** Media as a data: URI. Engines would fetch other URLs from inside the operator's network, so those are refused. */
const mediaUrl = { type: "string", pattern: "^[dD][aA][tT][aA]:" };
const url = { type: "object", required: ["url"], properties: { url: mediaUrl } };

const Part = tagged(
  "type",
  {
    text: { text: { type: "string" } },
    image_url: {
      image_url: {
        type: "object",
        required: ["url"],
        properties: { url: mediaUrl, detail: { type: "string", enum: ["auto", "low", "high"] } },
      },
    },
    input_audio: {
      input_audio: {
        type: "object",
        required: ["data", "format"],
        properties: { data: { type: "string" }, format: { type: "string", enum: ["wav", "mp3"] } },
      },
    },
    video_url: { video_url: url },
    file: { file: { type: "object" } },
  },
  {
    cache_control: { type: ["object", "null"] },
    // vLLM caches media under this name for all its callers: another account could name it.
    uuid: { enum: [null] },
  },
);

const TextPart = tagged(
  "type",
  { text: { text: { type: "string" } } },
  { cache_control: { type: ["object", "null"] } },
);

const content = (part: unknown, isNullable = false) => ({
  anyOf: [{ type: isNullable ? ["string", "null"] : "string" }, { type: "array", minItems: 1, items: part }],
});

const toolCalls = {
  type: ["array", "null"],
  items: {
    type: "object",
    required: ["id", "type", "function"],
    properties: {
      id: { type: "string" },
      type: { const: "function" },
      function: {
        type: "object",
        required: ["name", "arguments"],
        properties: { name: { type: "string" }, arguments: { type: "string" } },
      },
    },
  },
};

/** The engine's template checks the order of roles. An assistant message may have only tool calls, without content. */
const Message = tagged(
  "role",
  {
    system: { content: content(TextPart) },
    // The newer name of a system message.
    developer: { content: content(TextPart) },
    user: { content: content(Part) },
    assistant: {},
    tool: { content: content(TextPart), tool_call_id: { type: "string" } },
  },
  {
    content: content(TextPart, true),
    name: { type: ["string", "null"] },
    reasoning_content: { type: ["string", "null"] },
    tool_calls: toolCalls,
    cache_control: { type: ["object", "null"] },
  },
);

export const Messages = Type.Array(Message, { minItems: 1 });
