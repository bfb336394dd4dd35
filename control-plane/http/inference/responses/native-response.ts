// Decides whether a response may go to an engine in its own format, and writes it. Pure. Only what engines read as the translation
// does: the reply must be the same either way. What only this system does (conversations, sealed reasoning, truncation, background,
// tools that are no functions, files) is translated.
import type { FormatSkill } from "../../../../proto/api-formats.ts";
import type { NativeRequest } from "../../../inference/completion.ts";
import { definedFields } from "../defined-fields.ts";
import type { ResponseItem, ResponsePart, ResponseRequest } from "./responses-schemas.ts";

type Fields = Record<string, unknown>;

/** `items`: with those of earlier responses, without references. Undefined: translate. */
export function nativeResponse(body: ResponseRequest, items: readonly ResponseItem[]): NativeRequest | undefined {
  const { text, reasoning, instructions, tools: given, parallel_tool_calls: parallel } = body;
  const isOurs =
    body.background === true ||
    body.truncation === "auto" ||
    (body.include?.length ?? 0) > 0 ||
    (body.top_logprobs ?? 0) > 0 ||
    reasoning?.effort != null ||
    (text?.format != null && text.format.type !== "text") ||
    typeof (body.tool_choice ?? "auto") !== "string";
  if (isOurs) return undefined;
  const input = inputOf(items, instructions != null && instructions !== "");
  const tools = toolsOf(given ?? []);
  if (!input || !tools) return undefined;
  const isStream = body.stream === true;
  const hasTools = tools.length > 0 || items.some(({ type }) => type === "function_call");
  const needs: readonly FormatSkill[] = [
    "responses",
    ...(isStream ? (["responses_stream"] as const) : []),
    ...(hasTools ? (["responses_tools"] as const) : []),
  ];
  const fields = definedFields({
    input,
    instructions: instructions || undefined,
    temperature: body.temperature,
    top_p: body.top_p,
    ...(tools.length > 0 ? { tools, tool_choice: body.tool_choice, parallel_tool_calls: parallel } : {}),
    stream: isStream || undefined,
    store: false,
  });
  return { format: "responses", needs, fields };
}

/** Undefined for an item that engines do not read alike. */
function inputOf(items: readonly ResponseItem[], hasInstructions: boolean): readonly Fields[] | undefined {
  const input: Fields[] = [];
  let isAssistants = false;
  for (const [i, item] of items.entries()) {
    const read = itemOf(item);
    if (!read) return undefined;
    // Engines differ in how they join instructions, and parts of one turn.
    if (item.role === "system" && (i > 0 || hasInstructions)) return undefined;
    if (item.role === "assistant" && isAssistants) return undefined;
    isAssistants = item.role === "assistant" || item.type === "function_call";
    input.push(read);
  }
  return input;
}

function itemOf(item: ResponseItem): Fields | undefined {
  switch (item.type ?? "message") {
    case "message": {
      const { role } = item;
      const content = contentOf(item);
      return content === undefined || role === undefined || role === "developer"
        ? undefined
        : { type: "message", role, content };
    }
    case "function_call": {
      const { call_id, name, arguments: given, namespace } = item;
      return namespace ? undefined : { type: "function_call", call_id, name, arguments: given };
    }
    case "function_call_output":
      return typeof item.output === "string"
        ? { type: "function_call_output", call_id: item.call_id, output: item.output }
        : undefined;
    default:
      return undefined;
  }
}

/** A text, or the texts and images of a user. */
function contentOf({ role, content }: ResponseItem): string | readonly ResponsePart[] | undefined {
  if (content == null || typeof content === "string") return content ?? undefined;
  const [only] = content;
  if (content.length === 1 && only && isText(only)) return only.text;
  const isUsers = role === "user" && content.every((part) => isText(part) || part.type === "input_image");
  if (!isUsers || !content.some(({ type }) => type === "input_image")) return undefined;
  return content.map((part) => (isText(part) ? { type: "input_text", text: part.text ?? "" } : part));
}

const isText = ({ type, text }: ResponsePart): boolean =>
  (type === "input_text" || type === "output_text") && text !== undefined;

/** Undefined for a tool that is no function. */
function toolsOf(tools: NonNullable<ResponseRequest["tools"]>): readonly Fields[] | undefined {
  if (tools.some(({ type }) => type !== "function")) return undefined;
  return tools.map(({ name, description, parameters, strict }) =>
    // An engine's own default would be true.
    definedFields({
      type: "function",
      name,
      description: description || undefined,
      parameters,
      strict: strict === true,
    }),
  );
}
