// Body of a chat completion -> domain. Throws RequestError.
import { isJsonObject } from "../../proto/json-object.ts";
import { type Body, Fields } from "./fields.ts";
import { readImagePart } from "./image-part.ts";
import { readConstraint } from "./output-constraint.ts";
import { invalid, unusable } from "./request-error.ts";
import { type CommonRequest, commonFields } from "./sampling-fields.ts";
import type { ChatMessage, Constraint, ContentPart, EngineImage } from "./text-engine.ts";

export interface ChatTool {
  readonly name: string;
  readonly parameters: unknown;
  /** As it came, for the template. */
  readonly wire: unknown;
}

export type ToolChoice =
  | { readonly kind: "none" }
  | { readonly kind: "auto" }
  | { readonly kind: "required" }
  | { readonly kind: "named"; readonly name: string };

export interface ChatRequest extends CommonRequest {
  readonly messages: readonly ChatMessage[];
  readonly images: readonly EngineImage[];
  readonly continuesLastMessage: boolean;
  readonly tools: readonly ChatTool[];
  readonly toolChoice: ToolChoice;
  readonly allowsParallelCalls: boolean;
  readonly constraint: Constraint | undefined;
  readonly topLogprobs: number | undefined;
  readonly templateArguments: Body;
  /** Template arguments for the amount of reasoning; empty if the request has none. */
  readonly reasoning: Body;
}

export function readChatRequest(body: Body, takesImages = false): ChatRequest {
  const f = new Fields(body);
  const common = commonFields(f);
  const { messages, images } = readMessages(f.list("messages"), takesImages);
  const constraint = readConstraint(body);
  const tools = (f.list("tools") ?? []).map(readTool);
  const top = f.integer("top_logprobs", { min: 0, max: 20 });
  const wantsLogprobs = f.boolean("logprobs") ?? false;
  if (top !== undefined && !wantsLogprobs) throw invalid("top_logprobs", "top_logprobs needs logprobs to be true");
  const last = messages.at(-1);
  const endsWithAssistant = last?.role === "assistant" && last["tool_calls"] === undefined;
  if (f.boolean("continue_final_message") === true && !endsWithAssistant)
    throw invalid("continue_final_message", "continue_final_message needs a last message of role assistant with text");
  return {
    ...common,
    messages,
    images,
    continuesLastMessage: endsWithAssistant,
    tools,
    toolChoice: readToolChoice(f.raw("tool_choice"), tools),
    allowsParallelCalls: f.boolean("parallel_tool_calls") ?? true,
    constraint,
    topLogprobs: wantsLogprobs ? (top ?? 0) : undefined,
    reasoning: readReasoning(f),
    templateArguments: f.object("chat_template_kwargs") ?? {},
  };
}

const efforts: Readonly<Record<string, string>> = {
  minimal: "low",
  low: "low",
  medium: "medium",
  high: "high",
  xhigh: "high",
  max: "high",
};

/** Each family's template has its own argument and ignores unknown ones. */
function readReasoning(f: Fields): Body {
  const asked = f.object("reasoning");
  const effort = asked?.["enabled"] === false ? "none" : (asked?.["effort"] ?? f.raw("reasoning_effort"));
  if (effort === undefined || effort === null)
    return asked?.["enabled"] === true ? { enable_thinking: true, thinking: true } : {};
  if (effort === "none") return { enable_thinking: false, thinking: false };
  const level = typeof effort === "string" && Object.hasOwn(efforts, effort) ? efforts[effort] : undefined;
  if (level === undefined)
    throw invalid("reasoning_effort", `reasoning_effort must be none or one of ${Object.keys(efforts).join(", ")}`);
  return { enable_thinking: true, thinking: true, reasoning_effort: level };
}

function readTool(tool: unknown, i: number): ChatTool {
  const at = `tools.${i}`;
  if (!isJsonObject(tool) || tool["type"] !== "function" || !isJsonObject(tool["function"]))
    throw invalid(at, `${at} must be {"type":"function","function":{..}}`);
  const { name, parameters } = tool["function"];
  if (typeof name !== "string" || !/^[\w.-]{1,128}$/.test(name))
    throw invalid(`${at}.function.name`, `${at}.function.name must be 1 to 128 letters, digits, "_", "." or "-"`);
  if (parameters !== undefined && parameters !== null && !isJsonObject(parameters))
    throw invalid(`${at}.function.parameters`, `${at}.function.parameters must be a JSON Schema object`);
  return { name, parameters: parameters ?? undefined, wire: tool };
}

function readToolChoice(value: unknown, tools: readonly ChatTool[]): ToolChoice {
  if (value === undefined) return { kind: tools.length > 0 ? "auto" : "none" };
  if (value === "none" || value === "auto") return { kind: tools.length > 0 ? value : "none" };
  if (value === "required") {
    if (tools.length === 0) throw invalid("tool_choice", 'tool_choice "required" needs tools');
    return { kind: "required" };
  }
  const name = isJsonObject(value) && isJsonObject(value["function"]) ? value["function"]["name"] : undefined;
  if (typeof name !== "string")
    throw invalid(
      "tool_choice",
      'tool_choice must be "none", "auto", "required" or {"type":"function","function":{"name":..}}',
    );
  if (!tools.some((tool) => tool.name === name))
    throw invalid("tool_choice", `tool_choice names "${name}", which is not among the tools`);
  return { kind: "named", name };
}

const roles: Readonly<Record<string, string>> = {
  system: "system",
  developer: "system",
  user: "user",
  assistant: "assistant",
  tool: "tool",
};

interface ReadMessages {
  readonly messages: readonly ChatMessage[];
  /** In the order of their places. */
  readonly images: readonly EngineImage[];
}

/** Throws RequestError. */
function readMessages(list: readonly unknown[] | undefined, takesImages = false): ReadMessages {
  if (list === undefined || list.length === 0)
    throw invalid("messages", "messages must be a list of at least one message");
  const images = takesImages ? [] : undefined;
  return { messages: list.map((message, i) => readMessage(message, i, images)), images: images ?? [] };
}

function readMessage(message: unknown, i: number, images: EngineImage[] | undefined): ChatMessage {
  const at = `messages.${i}`;
  if (!isJsonObject(message)) throw invalid(at, `${at} must be an object`);
  const named = String(message["role"]);
  const role = Object.hasOwn(roles, named) ? roles[named] : undefined;
  if (role === undefined) throw invalid(`${at}.role`, `${at}.role must be system, user, assistant or tool`);
  const calls =
    role === "assistant" ? readToolCalls(message["tool_calls"] ?? undefined, `${at}.tool_calls`) : undefined;
  const parts = readContent(message["content"] ?? undefined, `${at}.content`, role === "assistant", images);
  if (role === "tool" && typeof message["tool_call_id"] !== "string")
    throw invalid(`${at}.tool_call_id`, `${at}.tool_call_id is required in a message of role tool`);
  return {
    role,
    content: images ? parts : parts.map((part) => (part.type === "text" ? part.text : "")).join("\n"),
    ...(calls ? { tool_calls: calls } : {}),
    ...(role === "tool" ? { tool_call_id: message["tool_call_id"] } : {}),
    ...(typeof message["name"] === "string" ? { name: message["name"] } : {}),
    ...(typeof message["reasoning_content"] === "string" ? { reasoning_content: message["reasoning_content"] } : {}),
  };
}

function readContent(
  content: unknown,
  at: string,
  mayBeAbsent: boolean,
  images: EngineImage[] | undefined,
): readonly ContentPart[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  if (content === undefined && mayBeAbsent) return [{ type: "text", text: "" }];
  if (!Array.isArray(content)) throw invalid(at, `${at} must be a string or a list of parts`);
  return content.map((part, i) => readPart(part, `${at}.${i}`, images));
}

/** A picture's bytes are added to `images`; undefined: the model reads none. */
function readPart(part: unknown, at: string, images: EngineImage[] | undefined): ContentPart {
  if (!isJsonObject(part)) throw invalid(at, `${at} must be an object with a type`);
  const { type, text } = part;
  if (type === "image_url" && images) {
    images.push(readImagePart(part, at));
    return { type: "image" };
  }
  if (type !== "text") {
    const kinds = images ? "text and image_url parts" : "text parts";
    throw unusable(at, `${at} is a part of type ${JSON.stringify(type)}; this model takes ${kinds} only`);
  }
  if (typeof text !== "string") throw invalid(`${at}.text`, `${at}.text must be a string`);
  return { type: "text", text };
}

function readToolCalls(calls: unknown, at: string): readonly Body[] | undefined {
  if (calls === undefined) return undefined;
  if (!Array.isArray(calls)) throw invalid(at, `${at} must be a list`);
  if (calls.length === 0) return undefined;
  return calls.map((call: unknown, i) => {
    const f = isJsonObject(call) ? call["function"] : undefined;
    if (!isJsonObject(call) || !isJsonObject(f) || typeof f["name"] !== "string")
      throw invalid(
        `${at}.${i}`,
        `${at}.${i} must be {"id":..,"type":"function","function":{"name":..,"arguments":..}}`,
      );
    return { ...call, type: "function", function: { ...f, arguments: readArguments(f["arguments"]) } };
  });
}

/** Templates write arguments as JSON themselves, so they get the object; text that is none stays text. */
function readArguments(value: unknown): unknown {
  if (typeof value !== "string") return value ?? {};
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}
