// Conversations of the playground. They are kept in this browser only.
import type { Answer, ChatRequest, Content, Message, ResponseFormat, Tool } from "./chat.ts";

export interface Settings {
  readonly system: string;
  readonly maxTokens: number;
  readonly temperature: number;
  /** Undefined: the server's default. */
  readonly topP?: number;
  readonly presencePenalty?: number;
  readonly frequencyPenalty?: number;
  readonly seed?: number;
  /** One stop sequence per line. */
  readonly stop: string;
  readonly reasoningEffort: string;
  /** Empty or missing: the default tier. */
  readonly serviceTier?: string;
  /** JSON text of a list of tools; empty: none. */
  readonly tools: string;
  /** JSON text of a JSON Schema; empty: none. */
  readonly schema: string;
}

export const defaultSettings: Settings = {
  system: "",
  maxTokens: 512,
  temperature: 0.7,
  stop: "",
  reasoningEffort: "",
  tools: "",
  schema: "",
};

export type Figures = Pick<Answer, "requestId" | "usage" | "firstMs" | "totalMs" | "finishReason">;

export interface Turn {
  readonly message: Message;
  /** Figures of a response of the model. */
  readonly model?: string;
  readonly reasoning?: string;
  readonly figures?: Figures;
  /** The answer was stopped or broke. */
  readonly isPartial?: boolean;
}

export interface Conversation {
  readonly id: string;
  /** Unix milliseconds. */
  readonly changedAt: number;
  readonly model: string;
  readonly settings: Settings;
  readonly turns: readonly Turn[];
}

export const textOf = (content: Content): string =>
  typeof content === "string"
    ? content
    : content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");

const titleLength = 48;

/** Begin of the first message; empty if there is none. */
export function titleOf({ turns }: Pick<Conversation, "turns">): string {
  const first = turns.find(({ message }) => message.role === "user")?.message;
  const words = first ? textOf(first.content).trim().replaceAll(/\s+/g, " ") : "";
  return words.length > titleLength ? `${words.slice(0, titleLength - 1)}…` : words;
}

/** Total cost in USD of the answers that report one. */
export const costOf = ({ turns }: Pick<Conversation, "turns">): number =>
  turns.reduce((sum, { figures }) => sum + (figures?.usage?.estimated_cost ?? 0), 0);

/** JSON that cannot be sent; `line`, where it is known, is in the message. */
export class SettingsError extends Error {}

/** Throws SettingsError if it is neither empty nor a list of tools. */
export function toolsOf(json: string): readonly Tool[] | undefined {
  if (json.trim() === "") return undefined;
  const value = parse(json);
  if (!Array.isArray(value)) throw new SettingsError("The tools must be a JSON list.");
  return value.map((one: unknown, at) => {
    // Accept a bare function as well as OpenAI's wrapper.
    const tool = isObject(one) && isObject(one["function"]) ? one["function"] : one;
    if (!isObject(tool) || typeof tool["name"] !== "string" || tool["name"] === "")
      throw new SettingsError(`Tool ${at + 1} has no name.`);
    const { name, description, parameters } = tool;
    if (parameters !== undefined && !isObject(parameters))
      throw new SettingsError(`The parameters of ${name} must be a JSON Schema.`);
    return {
      type: "function",
      function: {
        name,
        ...(typeof description === "string" ? { description } : {}),
        parameters: parameters ?? { type: "object", properties: {} },
      },
    };
  });
}

/** Throws SettingsError if it is neither empty nor a JSON object. */
export function formatOf(json: string): ResponseFormat | undefined {
  if (json.trim() === "") return undefined;
  const schema = parse(json);
  if (!isObject(schema)) throw new SettingsError("The schema must be a JSON object.");
  return { type: "json_schema", json_schema: { name: "answer", schema } };
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch (error) {
    throw new SettingsError(`Not valid JSON: ${error instanceof Error ? error.message : ""}`);
  }
}

/** Throws SettingsError. */
export function requestOf(model: string, settings: Settings, turns: readonly Turn[]): ChatRequest {
  const { system, maxTokens, temperature, topP, presencePenalty, frequencyPenalty, seed } = settings;
  const stop = settings.stop.split("\n").filter((line) => line !== "");
  const tools = toolsOf(settings.tools);
  const format = formatOf(settings.schema);
  return {
    model,
    messages: [
      ...(system.trim() === "" ? [] : [{ role: "system" as const, content: system }]),
      ...turns.map(({ message }) => message),
    ],
    max_tokens: maxTokens,
    temperature,
    ...(topP === undefined ? {} : { top_p: topP }),
    ...(presencePenalty === undefined ? {} : { presence_penalty: presencePenalty }),
    ...(frequencyPenalty === undefined ? {} : { frequency_penalty: frequencyPenalty }),
    ...(seed === undefined ? {} : { seed }),
    ...(stop.length === 0 ? {} : { stop }),
    ...(settings.reasoningEffort === "" ? {} : { reasoning_effort: settings.reasoningEffort }),
    ...(settings.serviceTier ? { service_tier: settings.serviceTier } : {}),
    ...(tools && tools.length > 0 ? { tools } : {}),
    ...(format ? { response_format: format } : {}),
  };
}

const maxConversations = 100;
const keyOf = (uid: string): string => `stoker.conversations.${uid}`;

/** Newest first. Unreadable data counts as none. */
export function readConversations(store: Pick<Storage, "getItem">, uid: string): readonly Conversation[] {
  try {
    const value: unknown = JSON.parse(store.getItem(keyOf(uid)) ?? "[]");
    return Array.isArray(value) ? (value as readonly Conversation[]).filter(({ turns }) => Array.isArray(turns)) : [];
  } catch {
    return [];
  }
}

/** Drops the oldest ones if the browser has no space. Images are not kept. False: nothing could be stored. */
export function writeConversations(
  store: Pick<Storage, "setItem">,
  uid: string,
  conversations: readonly Conversation[],
): boolean {
  const newestFirst = [...conversations]
    .filter(({ turns }) => turns.length > 0)
    .sort((a, b) => b.changedAt - a.changedAt)
    .slice(0, maxConversations)
    .map((one) => ({ ...one, turns: one.turns.map(withoutImages) }));
  for (let kept = newestFirst.length; ; kept = Math.floor(kept / 2)) {
    try {
      store.setItem(keyOf(uid), JSON.stringify(newestFirst.slice(0, kept)));
      return kept === newestFirst.length || kept > 0;
    } catch {
      if (kept === 0) return false;
    }
  }
}

function withoutImages(turn: Turn): Turn {
  const { message } = turn;
  return message.role === "user" && typeof message.content !== "string"
    ? { ...turn, message: { role: "user", content: textOf(message.content) } }
    : turn;
}
