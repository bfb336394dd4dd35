// Body of a chat completion -> domain. Throws RequestError.
import { constraintProblem } from "../../proto/constraint-size.ts";
import { readMessages } from "./chat-messages.ts";
import { type Body, Fields, isObject } from "./fields.ts";
import { invalid, RequestError, unusable } from "./request-error.ts";
import { type CommonRequest, commonFields } from "./sampling-fields.ts";
import type { ChatMessage, Constraint, EngineImage } from "./text-engine.ts";

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
  const problem = constraintProblem(body);
  if (problem) throw unusable(problem.param, problem.message, "format_too_large");
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
    constraint: readFormat(f.object("response_format")),
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
  if (!isObject(tool) || tool["type"] !== "function" || !isObject(tool["function"]))
    throw invalid(at, `${at} must be {"type":"function","function":{..}}`);
  const { name, parameters } = tool["function"];
  if (typeof name !== "string" || !/^[\w.-]{1,128}$/.test(name))
    throw invalid(`${at}.function.name`, `${at}.function.name must be 1 to 128 letters, digits, "_", "." or "-"`);
  if (parameters !== undefined && parameters !== null && !isObject(parameters))
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
  const name = isObject(value) && isObject(value["function"]) ? value["function"]["name"] : undefined;
  if (typeof name !== "string")
    throw invalid(
      "tool_choice",
      'tool_choice must be "none", "auto", "required" or {"type":"function","function":{"name":..}}',
    );
  if (!tools.some((tool) => tool.name === name))
    throw invalid("tool_choice", `tool_choice names "${name}", which is not among the tools`);
  return { kind: "named", name };
}

function readFormat(format: Body | undefined): Constraint | undefined {
  const type = format?.["type"] ?? "text";
  switch (type) {
    case "text":
      return undefined;
    case "json_object":
      return { kind: "json-object" };
    case "json_schema": {
      const wrapped = format?.["json_schema"];
      if (!isObject(wrapped) || !isObject(wrapped["schema"]))
        throw invalid(
          "response_format.json_schema.schema",
          "response_format.json_schema.schema must be a JSON Schema object",
        );
      return { kind: "json-schema", schema: wrapped["schema"] };
    }
    case "regex": {
      const regex = format?.["regex"];
      if (typeof regex !== "string" || regex === "")
        throw invalid("response_format.regex", "response_format.regex must be a regular expression");
      return { kind: "regex", regex };
    }
    default:
      throw unusable(
        "response_format",
        `response_format of type ${JSON.stringify(type)} is not supported; use text, json_object, json_schema or regex`,
      );
  }
}
