// Messages of a chat as the template takes them: text, places of pictures where the model reads them, tool arguments as objects.
import { type Body, isObject } from "./fields.ts";
import { readImagePart } from "./image-part.ts";
import { invalid, RequestError, unusable } from "./request-error.ts";
import type { ChatMessage, ContentPart, EngineImage } from "./text-engine.ts";

const roles: Readonly<Record<string, string>> = {
  system: "system",
  developer: "system",
  user: "user",
  assistant: "assistant",
  tool: "tool",
};

export interface ReadMessages {
  readonly messages: readonly ChatMessage[];
  /** In the order of their places. */
  readonly images: readonly EngineImage[];
}

/** Throws RequestError. */
export function readMessages(list: readonly unknown[] | undefined, takesImages = false): ReadMessages {
  if (list === undefined || list.length === 0)
    throw invalid("messages", "messages must be a list of at least one message");
  const images = takesImages ? [] : undefined;
  return { messages: list.map((message, i) => readMessage(message, i, images)), images: images ?? [] };
}

function readMessage(message: unknown, i: number, images: EngineImage[] | undefined): ChatMessage {
  const at = `messages.${i}`;
  if (!isObject(message)) throw invalid(at, `${at} must be an object`);
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
  if (!isObject(part)) throw invalid(at, `${at} must be an object with a type`);
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
    const f = isObject(call) ? call["function"] : undefined;
    if (!isObject(call) || !isObject(f) || typeof f["name"] !== "string")
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
