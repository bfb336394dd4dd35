// Reads replies of engines in the formats Responses and Messages as chat replies, so that one meter bounds, bills and delivers all
// three. Pure. A chat reply holds the first choice only; the gateway writes the customer's format from it.

import type { ApiFormat } from "../../proto/api-formats.ts";
import { isJsonObject, type JsonObject } from "../../proto/json-object.ts";

/** As a frame of a stream. The gateway passes on only requests whose replies are smaller (maxNativeTokens of relay.ts). */
const maxParsedBytes = 1024 * 1024;
/** Exact parsing calls a function for each value, so a larger reply would stop this process for too long. */
const maxExactBytes = 64 * 1024;
/** May match within a text as well. */
const longInteger = /[[:,]\s*-?\d{16}/;

/** One item of a response. */
export interface ItemParts {
  readonly text: string;
  readonly refusal: string;
  readonly reasoning: string;
  readonly call: { readonly id: string | undefined; readonly name: string; readonly arguments: string } | undefined;
}

export const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

const listOf = (value: unknown): readonly JsonObject[] => (Array.isArray(value) ? value.filter(isJsonObject) : []);

/** The body of a complete reply as that of a chat. Undefined: it is no reply of that format, or reports a failure. */
export function chatAnswer(format: ApiFormat, body: Buffer, maxTokens: number): Buffer | undefined {
  if (body.length > maxParsedBytes) return undefined;
  try {
    const text = body.toString();
    const isExact = format === "messages" && text.includes('"tool_use"') && longInteger.test(text);
    if (isExact && body.length > maxExactBytes) return undefined;
    const answer: unknown = JSON.parse(text, isExact ? exactIntegers : undefined);
    if (!isJsonObject(answer)) return undefined;
    const chat = format === "responses" ? ofResponse(answer, maxTokens) : ofMessage(answer);
    return chat && Buffer.from(JSON.stringify(chat));
  } catch {
    return undefined;
  }
}

/** Keeps the digits of integers that no double holds. */
function exactIntegers(_key: string, value: unknown, context?: { readonly source?: string }): unknown {
  const source = context?.source;
  const isLong = typeof value === "number" && source !== undefined && /^-?\d{16,}$/.test(source);
  return isLong ? rawJSON(source) : value;
}

const { rawJSON } = JSON as unknown as { readonly rawJSON: (text: string) => unknown };

interface Message {
  content: string;
  refusal: string;
  reasoning_content: string;
  tool_calls: object[];
}

const noMessage = (): Message => ({ content: "", refusal: "", reasoning_content: "", tool_calls: [] });

function chatOf({ content, refusal, reasoning_content, tool_calls }: Message, rest: object, usage: unknown): object {
  const message = {
    role: "assistant",
    content,
    ...(refusal === "" ? {} : { refusal }),
    ...(reasoning_content === "" ? {} : { reasoning_content }),
    ...(tool_calls.length === 0 ? {} : { tool_calls }),
  };
  return { object: "chat.completion", choices: [{ index: 0, message, ...rest }], ...(usage ? { usage } : {}) };
}

function ofResponse(answer: JsonObject, maxTokens: number): object | undefined {
  const { output, status, error, usage } = answer;
  if (!Array.isArray(output) || error != null || (status !== "completed" && status !== "incomplete")) return undefined;
  const message = noMessage();
  for (const item of listOf(output)) {
    const { text, refusal, reasoning, call } = itemParts(item);
    message.content += text;
    message.refusal += refusal;
    message.reasoning_content += reasoning;
    if (call)
      message.tool_calls.push({
        id: call.id,
        type: "function",
        function: { name: call.name, arguments: call.arguments },
      });
  }
  const finish_reason = finishOf(answer, message.tool_calls.length > 0, maxTokens);
  return chatOf(message, { finish_reason }, responseUsage(usage));
}

export function itemParts(item: JsonObject): ItemParts {
  const content = listOf(item["content"]);
  const ofType = (type: string, field: string) =>
    content.map((part) => (part["type"] === type ? textOf(part[field]) : "")).join("");
  const none: ItemParts = { text: "", refusal: "", reasoning: "", call: undefined };
  switch (item["type"]) {
    case "message":
      return { ...none, text: ofType("output_text", "text"), refusal: ofType("refusal", "refusal") };
    case "reasoning": {
      const own = ofType("reasoning_text", "text");
      const summary = listOf(item["summary"]).map((part) => textOf(part["text"]));
      return { ...none, reasoning: own || summary.join("\n") };
    }
    case "function_call":
      return {
        ...none,
        call: {
          id: textOf(item["call_id"]) || undefined,
          name: textOf(item["name"]),
          arguments: textOf(item["arguments"]),
        },
      };
    default:
      return none;
  }
}

/** llama.cpp's server calls a response completed that its limit ended. */
export function finishOf(response: JsonObject, hasCalls: boolean, maxTokens: number): string {
  const details = response["incomplete_details"];
  const reason = isJsonObject(details) ? details["reason"] : undefined;
  if (reason === "content_filter") return "content_filter";
  const usage = response["usage"];
  const output = isJsonObject(usage) ? usage["output_tokens"] : undefined;
  const isFull = typeof output === "number" && output >= maxTokens;
  if (response["status"] === "incomplete" || isFull) return "length";
  return hasCalls ? "tool_calls" : "stop";
}

const inner = (value: unknown, field: string): unknown => (isJsonObject(value) ? value[field] : undefined);

/** -1 for what is no number: the meter refuses it. */
const figure = (value: unknown): number | undefined =>
  typeof value === "number" ? value : value == null ? undefined : -1;

/** Usage of a chat; undefined where the engine reports none. */
export function responseUsage(usage: unknown): object | undefined {
  if (usage == null) return undefined;
  const details = inner(usage, "input_tokens_details");
  return {
    prompt_tokens: figure(inner(usage, "input_tokens")) ?? -1,
    completion_tokens: figure(inner(usage, "output_tokens")) ?? -1,
    total_tokens: figure(inner(usage, "total_tokens")),
    prompt_tokens_details: { cached_tokens: figure(inner(details, "cached_tokens")) },
    completion_tokens_details: {
      reasoning_tokens: figure(inner(inner(usage, "output_tokens_details"), "reasoning_tokens")),
    },
  };
}

/** Undefined: none that a message ends with. */
export const finishOfStop = (stop: unknown): string | undefined => finishByStop.get(stop);

const finishByStop: ReadonlyMap<unknown, string> = new Map([
  ["end_turn", "stop"],
  ["stop_sequence", "stop"],
  ["max_tokens", "length"],
  ["tool_use", "tool_calls"],
  ["pause_turn", "stop"],
  ["model_context_window_exceeded", "length"],
  ["refusal", "content_filter"],
]);

function ofMessage({ id, model, type, content, stop_reason, stop_sequence, usage }: JsonObject): object | undefined {
  const finish_reason = finishOfStop(stop_reason);
  if (type !== "message" || !Array.isArray(content) || finish_reason === undefined) return undefined;
  const message = noMessage();
  for (const block of listOf(content)) {
    if (block["type"] === "text") message.content += textOf(block["text"]);
    if (block["type"] === "thinking") message.reasoning_content += textOf(block["thinking"]);
    if (block["type"] === "tool_use") {
      const given = { name: textOf(block["name"]), arguments: JSON.stringify(block["input"] ?? {}) };
      message.tool_calls.push({ id: textOf(block["id"]) || undefined, type: "function", function: given });
    }
  }
  const head = { id: textOf(id), created: Math.floor(Date.now() / 1000), model: textOf(model) };
  return { ...head, ...chatOf(message, { finish_reason, stop_reason: stop_sequence ?? null }, messageUsage(usage)) };
}

/** `input_tokens` of a message are those that were not in the cache. */
export function messageUsage(usage: unknown): object | undefined {
  if (usage == null) return undefined;
  const fresh = figure(inner(usage, "input_tokens")) ?? -1;
  const read = figure(inner(usage, "cache_read_input_tokens")) ?? 0;
  const written = figure(inner(usage, "cache_creation_input_tokens")) ?? 0;
  const isKnown = fresh >= 0 && read >= 0 && written >= 0;
  const prompt = isKnown ? fresh + read + written : -1;
  const output = figure(inner(usage, "output_tokens")) ?? -1;
  return {
    prompt_tokens: prompt,
    completion_tokens: output,
    total_tokens: prompt + output,
    prompt_tokens_details: { cached_tokens: read },
    completion_tokens_details: {
      reasoning_tokens: figure(inner(inner(usage, "output_tokens_details"), "thinking_tokens")),
    },
  };
}
