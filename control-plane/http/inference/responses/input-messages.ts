// Converts input items to messages of a chat. Pure.
import { fieldMissing } from "../../errors/errors.ts";
import { itemUnsupported, partUnsupported } from "./errors.ts";
import type { ResponseItem, ResponsePart } from "./responses-schemas.ts";
import { functionName } from "./tools.ts";

export const itemTypes = [
  "message",
  "function_call",
  "function_call_output",
  "custom_tool_call",
  "custom_tool_call_output",
  "reasoning",
  "item_reference",
] as const;

type Content = string | readonly Readonly<Record<string, unknown>>[];

interface ToolCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: string };
}

/** A message of ChatRequest. */
export interface ChatMessage {
  readonly role: "system" | "user" | "assistant" | "tool";
  content?: Content;
  reasoning_content?: string;
  tool_calls?: ToolCall[];
  tool_call_id?: string;
}

/** Reasoning of an item, from its encrypted content where it has any. Throws encryptedContentInvalid. */
export type OpenReasoning = (encrypted: string, param: string) => string;

/**
 * Leading instructions are one system message, because many templates accept only one. The parts of one turn of the assistant are
 * one message. The first `beforeCount` items are of earlier responses. Throws itemUnsupported, partUnsupported, fieldMissing and the errors of `open`.
 */
export function messagesOf(
  items: readonly ResponseItem[],
  instructions: string | null | undefined,
  open: OpenReasoning,
  beforeCount = 0,
): ChatMessage[] {
  const messages: ChatMessage[] = [];
  if (instructions) messages.push({ role: "system", content: instructions });
  /** Images of tool outputs: engines accept only text there, so they follow as a message of the user. */
  let images: Record<string, unknown>[] = [];
  let turn: ChatMessage | undefined;

  const add = (message: ChatMessage) => {
    if (images.length > 0 && message.role !== "tool") {
      messages.push({ role: "user", content: images });
      images = [];
    }
    messages.push(message);
    turn = message.role === "assistant" ? message : undefined;
    return message;
  };
  const assistant = () => turn ?? add({ role: "assistant" });

  for (const [i, item] of items.entries()) {
    const param = `input.${i - beforeCount}`;
    switch (item.type ?? "message") {
      case "message": {
        const role = needed(item.role, `${param}.role`);
        const content = needed(item.content, `${param}.content`);
        if (role === "assistant") {
          const message = turn && turn.content === undefined && !turn.tool_calls ? turn : add({ role });
          message.content = textOf(content, `${param}.content`);
        } else if (role === "user") add({ role, content: userContent(content, `${param}.content`) });
        else {
          const text = textOf(content, `${param}.content`);
          const first = messages[0];
          if (messages.length === 1 && first?.role === "system") first.content = `${first.content}\n\n${text}`;
          else add({ role: "system", content: text });
        }
        break;
      }
      case "reasoning": {
        const text = reasoningOf(item, param, open);
        if (text === "") break;
        const message = turn && turn.content === undefined && !turn.tool_calls ? turn : add({ role: "assistant" });
        message.reasoning_content = (message.reasoning_content ?? "") + text;
        break;
      }
      case "function_call":
      case "custom_tool_call": {
        const message = assistant();
        const given =
          item.type === "function_call"
            ? needed(item.arguments, `${param}.arguments`)
            : JSON.stringify({ input: needed(item.input, `${param}.input`) });
        message.tool_calls ??= [];
        message.tool_calls.push({
          id: needed(item.call_id, `${param}.call_id`),
          type: "function",
          function: { name: functionName(item.namespace, needed(item.name, `${param}.name`)), arguments: given },
        });
        break;
      }
      case "function_call_output":
      case "custom_tool_call_output": {
        const output = needed(item.output, `${param}.output`);
        const parts = typeof output === "string" ? [] : output;
        const media = parts.filter(({ type }) => type === "input_image");
        const rest = typeof output === "string" ? output : parts.filter(({ type }) => type !== "input_image");
        add({
          role: "tool",
          tool_call_id: needed(item.call_id, `${param}.call_id`),
          content: textOf(rest, `${param}.output`),
        });
        images.push(...media.map((part) => imageOf(part, `${param}.output`)));
        break;
      }
      default:
        throw itemUnsupported(item.type as string, `${param}.type`, itemTypes);
    }
  }
  if (images.length > 0) messages.push({ role: "user", content: images });
  return messages;
}

function needed<T>(value: T | null | undefined, param: string): T {
  if (value === undefined || value === null) throw fieldMissing(param);
  return value;
}

function reasoningOf(
  { encrypted_content, content, summary }: ResponseItem,
  param: string,
  open: OpenReasoning,
): string {
  if (encrypted_content) return open(encrypted_content, `${param}.encrypted_content`);
  const parts = Array.isArray(content) && content.length > 0 ? (content as readonly ResponsePart[]) : (summary ?? []);
  return parts.map(({ text }) => text ?? "").join("\n");
}

/** One text of parts that must all be text. */
function textOf(content: string | readonly ResponsePart[], param: string): string {
  if (typeof content === "string") return content;
  return content.map((part, i) => textPart(part, `${param}.${i}`)).join("");
}

function textPart(part: ResponsePart, param: string): string {
  if (part.type === "input_file") return fileText(part, param);
  if (part.type === "refusal") return part.refusal ?? "";
  if (part.text === undefined)
    throw partUnsupported(`Only text is supported in this message, not ${part.type}.`, `${param}.type`);
  return part.text;
}

function userContent(content: string | readonly ResponsePart[], param: string): Content {
  if (typeof content === "string") return content;
  const parts = content.map((part, i) => userPart(part, `${param}.${i}`));
  const [only] = parts;
  // Some templates read only plain strings.
  return parts.length === 1 && only?.["type"] === "text" ? (only["text"] as string) : parts;
}

function userPart(part: ResponsePart, param: string): Record<string, unknown> {
  if (part.type === "input_image") return imageOf(part, param);
  if (part.type === "input_audio") return { type: "input_audio", input_audio: part.input_audio };
  return { type: "text", text: textPart(part, param) };
}

function imageOf({ image_url: url, detail }: ResponsePart, param: string): Record<string, unknown> {
  if (!url) throw partUnsupported("An image must be sent as a data: URI in `image_url`.", `${param}.image_url`);
  // `original` is higher than the highest of a chat.
  const wanted = detail === "original" ? "high" : detail;
  return { type: "image_url", image_url: { url, ...(wanted ? { detail: wanted } : {}) } };
}

const textFile = /^data:(?:text\/[\w.+-]+|application\/(?:json|xml|yaml|x-yaml))(?:;[\w=.-]+)*;base64,/i;

/** Text of a file with text; any other file needs a converter, which no engine has. */
function fileText({ file_data: data, filename }: ResponsePart, param: string): string {
  const head = data && textFile.exec(data)?.[0];
  if (!data || !head) {
    const what =
      "An input_file must contain text, as a data: URI with base64 in `file_data` (text/*, JSON, XML or YAML).";
    throw partUnsupported(`${what} Send the text of other files as input_text.`, `${param}.file_data`);
  }
  const text = Buffer.from(data.slice(head.length), "base64").toString();
  return filename ? `${filename}:\n${text}` : text;
}
