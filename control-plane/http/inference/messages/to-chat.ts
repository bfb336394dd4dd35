// Translates a request of the Messages API to the fields of a chat request. Pure. Throws the errors of the edge.
import type { ReasoningSeal } from "../../../accounts/reasoning-seals.ts";
import { badRequest } from "../../../service-error.ts";
import { valueUnsupported } from "../../errors/errors.ts";
import type {
  Block,
  Message,
  MessageBody,
  PromptBody,
  Source,
  Thinking,
  ToolChoice,
} from "./message-request-schemas.ts";
import { openThinking } from "./thinking-signature.ts";

type Fields = Record<string, unknown>;
type Part =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image_url"; readonly image_url: object };

/** A message before its parts become content. */
interface Turn {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly parts: Part[];
  readonly reasoning: string[];
  readonly calls: object[];
  readonly callId: string | undefined;
}

/** Fields of a chat request. Those that a null leaves at their defaults are undefined. `seal`: of the caller's account. */
export function chatFields(body: MessageBody, seal: ReasoningSeal | undefined) {
  return {
    ...promptFields(body, seal),
    max_tokens: body.max_tokens,
    stop: body.stop_sequences?.length ? body.stop_sequences : undefined,
    temperature: body.temperature ?? undefined,
    top_p: body.top_p ?? undefined,
    top_k: body.top_k ?? undefined,
    stream: body.stream ?? undefined,
    user: body.metadata?.["user_id"] ?? undefined,
  };
}

/** The fields that decide the prompt. */
export function promptFields(body: PromptBody, seal: ReasoningSeal | undefined) {
  refuseUnsupported(body);
  const turns = turnsOf(body, seal);
  const last = turns.at(-1);
  const { tools, tool_choice: choice, thinking, output_config: output } = body;
  // Models differ in what turns their reasoning on: a template's argument of either name, or an effort.
  const effort = effortOf(output?.["effort"], thinking);
  const isReasoning = thinking == null ? undefined : thinking.type !== "disabled";
  return {
    model: body.model,
    messages: turns.map(messageOf),
    // The last message of the assistant is the beginning of its reply.
    continue_final_message: last?.role === "assistant" && last.calls.length === 0 ? true : undefined,
    tools: tools?.length ? tools.map(toolOf) : undefined,
    tool_choice: choice == null ? undefined : choiceOf(choice),
    parallel_tool_calls: choice?.disable_parallel_tool_use === true ? false : undefined,
    reasoning:
      isReasoning === undefined ? undefined : { enabled: isReasoning, effort: isReasoning ? effort : undefined },
    reasoning_effort: isReasoning === false ? undefined : effort,
    chat_template_kwargs:
      isReasoning === undefined ? undefined : { enable_thinking: isReasoning, thinking: isReasoning },
    response_format: formatOf(body),
  };
}

/** True for a request that the account's seal is needed for. */
export const hasThinking = ({ messages }: PromptBody): boolean =>
  messages.some(({ content }) => typeof content !== "string" && content.some(isThinking));

/** True for an image in a message or in the result of a tool. */
export const hasImage = ({ messages }: PromptBody): boolean =>
  messages.some(({ content }) => typeof content !== "string" && content.some(holdsImage));

const isThinking = ({ type }: Block): boolean => type === "thinking" || type === "redacted_thinking";

function holdsImage(block: Block): boolean {
  if (block.type === "image") return true;
  if (block.type === "tool_result") return Array.isArray(block.content) && block.content.some(holdsImage);
  const { source } = block as { readonly source?: Source };
  return source?.type === "content" && typeof source.content !== "string" && source.content.some(holdsImage);
}

const servedElsewhere = [
  ["container", "Code is not executed here. Leave the field out."],
  ["mcp_servers", "MCP servers are not called here. Call them from your client and pass their tools in tools."],
] as const;

function refuseUnsupported(body: PromptBody): void {
  for (const [field, advice] of servedElsewhere) {
    const value = (body as Fields)[field];
    if (value == null || (Array.isArray(value) && value.length === 0)) continue;
    throw badRequest("unsupported_value", `${field} is not supported. ${advice}`, { param: field });
  }
}

/** Consecutive messages of one role are joined: templates of many models require that roles alternate. */
function turnsOf({ system, messages }: PromptBody, seal: ReasoningSeal | undefined): readonly Turn[] {
  const turns: Turn[] = [];
  if (system != null && system.length > 0) turns.push(turn("system", partsOf(system, "system")));
  for (const [i, message] of messages.entries()) {
    for (const next of turnsOfMessage(message, `messages.${i}.content`, seal)) {
      const last = turns.at(-1);
      if (last?.role !== next.role || next.role === "tool") turns.push(next);
      else {
        last.parts.push(...next.parts);
        last.reasoning.push(...next.reasoning);
        last.calls.push(...next.calls);
      }
    }
  }
  return turns;
}

function turnsOfMessage({ role, content }: Message, at: string, seal: ReasoningSeal | undefined): Turn[] {
  if (role === "assistant") return [assistantTurn(content, at, seal)];
  if (typeof content === "string") return [turn(role, partsOf(content, at))];
  const results: Turn[] = [];
  // Images of results follow them in a message of the user: the content of a tool message is only text.
  const parts: Part[] = [];
  for (const [i, block] of content.entries()) {
    if (block.type !== "tool_result") {
      parts.push(...partsOfBlock(block, `${at}.${i}`));
      continue;
    }
    const { tool_use_id: id, is_error: isError } = block;
    const given = partsOf(block.content ?? "", `${at}.${i}.content`);
    const texts = given.filter(({ type }) => type === "text");
    const failed: readonly Part[] = isError ? [textPart("Error:")] : [];
    results.push(turn("tool", [...failed, ...texts], id));
    parts.push(...given.filter(({ type }) => type !== "text"));
  }
  return parts.length > 0 || results.length === 0 ? [...results, turn(role, parts)] : results;
}

function assistantTurn(content: Message["content"], at: string, seal: ReasoningSeal | undefined): Turn {
  if (typeof content === "string") return turn("assistant", partsOf(content, at));
  const parts: Part[] = [];
  const reasoning: string[] = [];
  const calls: object[] = [];
  for (const [i, block] of content.entries()) {
    if (block.type === "thinking" || block.type === "redacted_thinking") {
      const thought = openThinking(block, seal, `${at}.${i}`);
      if (thought !== undefined) reasoning.push(thought);
    } else if (block.type === "tool_use") {
      const { id, name, input } = block;
      calls.push({ id, type: "function", function: { name, arguments: JSON.stringify(input ?? {}) } });
    } else parts.push(...partsOfBlock(block, `${at}.${i}`));
  }
  return { ...turn("assistant", parts), reasoning, calls };
}

const turn = (role: Turn["role"], parts: Part[], callId?: string): Turn => ({
  role,
  parts,
  reasoning: [],
  calls: [],
  callId,
});

function messageOf({ role, parts, reasoning, calls, callId }: Turn): object {
  return {
    role,
    content: parts.length === 0 && calls.length > 0 ? null : contentOf(parts),
    tool_call_id: callId,
    reasoning_content: reasoning.length > 0 ? reasoning.join("\n") : undefined,
    tool_calls: calls.length > 0 ? calls : undefined,
  };
}

/** Text blocks are lines, as engines join them; only an image needs a list of parts. */
function contentOf(parts: readonly Part[]): string | readonly Part[] {
  const [only] = parts;
  if (parts.length === 1 && only?.type === "text") return only.text;
  const texts = parts.flatMap((part) => (part.type === "text" ? [part.text] : []));
  return texts.length === parts.length ? texts.join("\n") : parts;
}

const textPart = (text: string): Part => ({ type: "text", text });

const partsOf = (content: string | readonly Block[], at: string): Part[] =>
  typeof content === "string" ? [textPart(content)] : content.flatMap((block, i) => partsOfBlock(block, `${at}.${i}`));

function partsOfBlock(block: Block, at: string): readonly Part[] {
  switch (block.type) {
    case "text":
      return [textPart(block.text)];
    case "image":
      return [imagePart(block.source, `${at}.source`)];
    case "search_result":
      return [textPart([block.title, block.source].join("\n")), ...partsOf(block.content, `${at}.content`)];
    case "document": {
      const about = [block.title, block.context].filter((one) => typeof one === "string" && one !== "");
      const head = about.length > 0 ? [textPart(about.join("\n"))] : [];
      return [...head, ...documentParts(block.source, `${at}.source`)];
    }
    default:
      throw valueUnsupported(`${at} is a block of type ${block.type}, which a message of this role cannot contain.`, {
        param: `${at}.type`,
      });
  }
}

function imagePart(source: Source, at: string): Part {
  if (source.type === "base64")
    return { type: "image_url", image_url: { url: `data:${source.media_type};base64,${source.data}` } };
  const message = `${at}.type ${source.type} is not supported: images are not fetched. Send the image as base64.`;
  throw valueUnsupported(message, { param: `${at}.type` });
}

function documentParts(source: Source, at: string): readonly Part[] {
  if (source.type === "text") return [textPart(source.data)];
  if (source.type === "content") return partsOf(source.content, `${at}.content`);
  const message = `${at}.type ${source.type} is not supported. Send the document as text: type text with its text in data.`;
  throw valueUnsupported(message, { param: `${at}.type` });
}

export type MessageTool = NonNullable<PromptBody["tools"]>[number] & {
  readonly type?: string | null;
  readonly name: string;
  readonly description?: string | null;
  readonly input_schema?: object;
};

function toolOf(given: unknown, i: number): object {
  const { type, name, description, input_schema: parameters } = given as MessageTool;
  if (type != null && type !== "custom")
    throw badRequest(
      "unsupported_value",
      `tools.${i}.type ${type.slice(0, 64)} is not supported: only tools that your client runs are. Define the tool by name, description and input_schema.`,
      { param: `tools.${i}.type` },
    );
  if (parameters === undefined)
    throw valueUnsupported(`tools.${i}.input_schema is required.`, { param: `tools.${i}.input_schema` });
  return { type: "function", function: { name, description: description ?? undefined, parameters } };
}

const choices = { auto: "auto", any: "required", none: "none" } as const;

const choiceOf = (choice: ToolChoice): string | object =>
  choice.type === "tool" ? { type: "function", function: { name: choice.name } } : choices[choice.type];

type Effort = "low" | "medium" | "high";

/** Engines have three levels and no budget. */
function effortOf(effort: unknown, thinking: Thinking | null | undefined): Effort | undefined {
  if (typeof effort === "string") return effort === "low" || effort === "medium" ? effort : "high";
  if (thinking?.type !== "enabled") return undefined;
  const { budget_tokens: budget } = thinking;
  return budget < 4_096 ? "low" : budget < 16_384 ? "medium" : "high";
}

function formatOf({ output_config: output, output_format: former }: PromptBody): object | undefined {
  const format = (output?.["format"] ?? former) as { readonly schema: object } | null | undefined;
  return format ? { type: "json_schema", json_schema: { name: "response", schema: format.schema } } : undefined;
}
