// Writes a chat as a request of the Messages API, for servers that speak only that. Pure. Throws FieldUnsupported for what it
// cannot express: the reply would be another one.
import { randomBytes } from "node:crypto";
import { FieldUnsupported } from "./errors.ts";

type Fields = Readonly<Record<string, unknown>>;
type Block = Record<string, unknown>;

interface Turn {
  readonly role: "user" | "assistant";
  readonly content: Block[];
}

/** Fields without an equivalent, and the values at which they change nothing. */
const inexpressible: Readonly<Record<string, unknown>> = {
  n: 1,
  logprobs: false,
  top_logprobs: 0,
  seed: undefined,
  min_p: 0,
  presence_penalty: 0,
  frequency_penalty: 0,
  repetition_penalty: 1,
  ignore_eos: false,
};

/**
 * `fields`: of a chat request. `maxTokens`: required by the API. `hasSampling` false: the API refuses temperature, top_p and top_k
 * at any value, and most clients send one.
 */
export function messageBody(fields: Fields, model: string, maxTokens: number, hasSampling = true): Buffer {
  for (const [field, neutral] of Object.entries(inexpressible))
    if (fields[field] != null && fields[field] !== neutral) throw new FieldUnsupported(field);
  if (listOf(fields["stop_token_ids"]).length > 0) throw new FieldUnsupported("stop_token_ids");
  const inputs = new Inputs();
  const { system, turns } = conversationOf(listOf(fields["messages"]), inputs);
  const thinking = thinkingOf(fields, maxTokens);
  const body = {
    model,
    max_tokens: maxTokens,
    ...(system === "" ? {} : { system }),
    messages: turns,
    ...(fields["stream"] === true ? { stream: true } : {}),
    ...stopOf(fields["stop"]),
    ...(thinking ? { thinking } : {}),
    ...(thinking?.["type"] === "enabled" || !hasSampling ? {} : samplingOf(fields)),
    ...toolsOf(fields),
    ...formatOf(fields["response_format"] as Fields | null | undefined),
    ...userOf(fields["user"]),
  };
  return Buffer.from(inputs.placedIn(JSON.stringify(body)));
}

const listOf = (value: unknown): readonly Fields[] => (Array.isArray(value) ? value : []);

/** Arguments of calls, which are written as they came: parsing would lose digits. */
class Inputs {
  readonly #mark = randomBytes(16).toString("hex");
  readonly #texts: string[] = [];

  /** Returns the place of the text in the body. */
  add(text: string): string {
    this.#texts.push(text);
    return `${this.#mark}${this.#texts.length - 1}.`;
  }

  placedIn(json: string): string {
    if (this.#texts.length === 0) return json;
    return json.replaceAll(new RegExp(`"${this.#mark}(\\d+)\\."`, "g"), (_, i) => this.#texts[Number(i)] as string);
  }
}

/** System texts come first and roles alternate, as the API requires. */
function conversationOf(messages: readonly Fields[], inputs: Inputs): { system: string; turns: readonly Turn[] } {
  const system: string[] = [];
  const turns: Turn[] = [];
  for (const [i, message] of messages.entries()) {
    const at = `messages.${i}`;
    const { role, content } = message;
    if (role === "system" || role === "developer") {
      system.push(textOf(content));
      continue;
    }
    const turn: Turn =
      role === "assistant"
        ? { role, content: [...blocksOf(content, at), ...callsOf(message, at, inputs)] }
        : { role: "user", content: role === "tool" ? [resultOf(message)] : blocksOf(content, at) };
    const last = turns.at(-1);
    if (last?.role === turn.role) last.content.push(...turn.content);
    else if (turn.content.length > 0) turns.push(turn);
  }
  return { system: system.filter((text) => text !== "").join("\n\n"), turns };
}

const textOf = (content: unknown): string =>
  typeof content === "string"
    ? content
    : listOf(content)
        .map(({ text }) => (typeof text === "string" ? text : ""))
        .join("\n");

/** Empty texts are refused by the API. */
function blocksOf(content: unknown, at: string): Block[] {
  if (typeof content === "string") return content === "" ? [] : [{ type: "text", text: content }];
  return listOf(content).flatMap((part, i) => {
    if (part["type"] === "text") return part["text"] === "" ? [] : [{ type: "text", text: part["text"] }];
    if (part["type"] === "image_url") return [imageOf(part["image_url"] as Fields, `${at}.content.${i}.image_url.url`)];
    throw new FieldUnsupported(`${at}.content.${i}.type`);
  });
}

function imageOf({ url }: Fields, at: string): Block {
  const text = url as string;
  const comma = text.indexOf(",");
  const type = /^data:([\w.+-]+\/[\w.+-]+)(?:;[^,]*)?;base64$/i.exec(text.slice(0, Math.min(comma, 200)))?.[1];
  if (comma < 0 || type === undefined) throw new FieldUnsupported(at);
  return { type: "image", source: { type: "base64", media_type: type.toLowerCase(), data: text.slice(comma + 1) } };
}

function callsOf(message: Fields, at: string, inputs: Inputs): readonly Block[] {
  return listOf(message["tool_calls"]).map(({ id, function: given }, i) => {
    const { name, arguments: text } = given as { readonly name: string; readonly arguments: string };
    const input = text.trim() === "" ? "{}" : text;
    if (!isObjectText(input))
      throw new FieldUnsupported(`${at}.tool_calls.${i}.function.arguments`, "Send a JSON object.");
    return { type: "tool_use", id: callId(id), name, input: inputs.add(input) };
  });
}

function isObjectText(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

const resultOf = ({ tool_call_id: id, content }: Fields): Block => ({
  type: "tool_result",
  tool_use_id: callId(id),
  content: textOf(content),
});

/** Other engines write ids that the API refuses. */
const callId = (id: unknown): string => String(id).replaceAll(/[^\w-]/g, "_");

function stopOf(stop: unknown): Fields {
  const texts = typeof stop === "string" ? [stop] : Array.isArray(stop) ? stop : [];
  return texts.length > 0 ? { stop_sequences: texts } : {};
}

function samplingOf({ temperature, top_p, top_k }: Fields): Fields {
  return {
    ...(temperature == null ? {} : { temperature: Math.min(1, temperature as number) }),
    ...(top_p == null || top_p === 1 ? {} : { top_p }),
    ...(top_k == null || top_k === 0 ? {} : { top_k }),
  };
}

const budgets: Readonly<Record<string, number>> = {
  low: 2_048,
  medium: 8_192,
  high: 16_384,
  xhigh: 32_768,
  max: 32_768,
};
const minBudget = 1_024;

/**
 * With thinking the API takes no sampling, no forced tool and no begun reply, and wants the signed thoughts of a call back, which a
 * chat does not keep. At most half of the tokens.
 */
function thinkingOf(fields: Fields, maxTokens: number): Fields | undefined {
  const reasoning = (fields["reasoning"] ?? {}) as Fields;
  const wanted = fields["reasoning_effort"] ?? reasoning["effort"];
  // Some models think unless a request says otherwise.
  if (reasoning["enabled"] === false || wanted === "none") return { type: "disabled" };
  const effort = wanted ?? (reasoning["enabled"] === true ? "medium" : "");
  const budget = Math.min(budgets[effort as string] ?? 0, Math.floor(maxTokens / 2));
  const isFree = fields["tool_choice"] == null || fields["tool_choice"] === "auto" || fields["tool_choice"] === "none";
  const isAsked = listOf(fields["messages"]).at(-1)?.["role"] === "user";
  return budget >= minBudget && isFree && isAsked ? { type: "enabled", budget_tokens: budget } : undefined;
}

const choices: Readonly<Record<string, string>> = { auto: "auto", none: "none", required: "any" };

function toolsOf({ tools, tool_choice: choice, parallel_tool_calls: isParallel }: Fields): Fields {
  const given = listOf(tools);
  if (given.length === 0) return {};
  const named = (choice as { readonly function?: { readonly name: string } } | null | undefined)?.function?.name;
  const type = named === undefined ? (choices[(choice ?? "auto") as string] ?? "auto") : "tool";
  const isSingle = isParallel === false && type !== "none";
  const tool_choice = {
    type,
    ...(named === undefined ? {} : { name: named }),
    ...(isSingle ? { disable_parallel_tool_use: true } : {}),
  };
  return {
    tools: given.map(toolOf),
    ...(choice == null && !isSingle ? {} : { tool_choice }),
  };
}

function toolOf({ function: given }: Fields): Block {
  const { name, description, parameters, strict } = given as Fields;
  return {
    name,
    ...(description == null ? {} : { description }),
    input_schema: { type: "object", ...((parameters ?? {}) as Fields) },
    ...(strict === true ? { strict } : {}),
  };
}

function formatOf(format: Fields | null | undefined): Fields {
  if (format == null || format["type"] === "text") return {};
  if (format["type"] !== "json_schema") throw new FieldUnsupported("response_format", "Send a json_schema.");
  const { schema } = format["json_schema"] as Fields;
  return { output_config: { format: { type: "json_schema", schema } } };
}

const maxUserLength = 256;

const userOf = (user: unknown): Fields =>
  typeof user === "string" && user !== "" && user.length <= maxUserLength ? { metadata: { user_id: user } } : {};
