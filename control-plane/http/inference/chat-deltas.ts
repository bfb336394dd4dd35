// Reads a chat response in OpenAI's format, streamed or whole, as a sequence of typed deltas. Pure. Never throws for what an engine
// sends: an error here would end the connection that all requests to its host share. Reads the first choice only.
import { isJsonObject, type JsonObject } from "../../../proto/json-object.ts";

export interface ChatUsage {
  readonly input: number;
  readonly output: number;
  readonly total: number;
  /** Included in `input`. */
  readonly cached: number;
  /** Included in `output`. */
  readonly reasoning: number;
  /** USD; undefined where the agent reported none. */
  readonly estimatedCost: number | undefined;
}

/** Order: `start`, then content and tool calls, `finish`, `usage`, `end`. Each of them may be absent except `end`. */
export type ChatDelta =
  | { readonly kind: "start"; readonly created: number | undefined }
  /** `logprobs`: entries of OpenAI's `logprobs.content` for this text. */
  | { readonly kind: "text"; readonly text: string; readonly logprobs: readonly object[] | undefined }
  | { readonly kind: "reasoning"; readonly text: string }
  | { readonly kind: "refusal"; readonly text: string }
  /** A call begins. `index` is its position among the calls of the response; `id` is undefined where the engine sent none. */
  | { readonly kind: "call"; readonly index: number; readonly id: string | undefined; readonly name: string }
  /** JSON text of the arguments, or a part of it. */
  | { readonly kind: "arguments"; readonly index: number; readonly text: string }
  /** `stop`: stop sequence that ended the text; undefined where none did or the engine reports none. */
  | { readonly kind: "finish"; readonly reason: string; readonly stop: string | undefined }
  | { readonly kind: "usage"; readonly usage: ChatUsage }
  /** The engine or the agent reports that the response broke. */
  | { readonly kind: "error"; readonly code: string | undefined; readonly message: string | undefined }
  | { readonly kind: "end" };

interface Call {
  /** Position in the response. */
  readonly index: number;
  hasStarted: boolean;
  id: string | undefined;
  /** Arguments that arrived before the name. */
  early: string;
}

/** What stands around the text of an event that contains nothing but text. Engines repeat it in every event of a response. */
interface TextFrame {
  /** Up to the first character of the text; with and without a space after `data:`. */
  readonly before: { readonly spaced: string; readonly tight: string };
  /** From the text's closing quote to the empty line. */
  readonly after: string;
}

/**
 * For one response. `on` receives the deltas in order, during the call of `read`, `flush` or `end`. Texts of consecutive events
 * become one delta, which costs an engine's busy stream a fraction of the time and bytes of one delta per token.
 */
export class ChatDeltas {
  readonly #on: (delta: ChatDelta) => void;
  #textFrame: TextFrame | undefined;
  /** Deltas of the event that is read now. */
  #emittedCount = 0;
  #hasOnlyText = false;
  /** Text that was read but not emitted. */
  #text = "";
  /** By the engine's index; undefined while there is none. */
  #calls: Map<number, Call> | undefined;
  #startedCount = 0;
  #hasStarted = false;
  #hasEnded = false;

  constructor(on: (delta: ChatDelta) => void) {
    this.#on = on;
  }

  /**
   * Reads frames from `from` on that differ from an earlier event only in their text, without parsing them. Returns the index after the
   * last one. `frames`: whole ones, with their empty lines.
   */
  readTexts(frames: string, from: number): number {
    const frame = this.#textFrame;
    if (!frame || this.#hasEnded) return from;
    const { after } = frame;
    const before = frames[from + "data:".length] === " " ? frame.before.spaced : frame.before.tight;
    for (let at = from; ; ) {
      const start = at + before.length;
      // Not startsWith, which takes longer than the parsing.
      if (frames.slice(at, start) !== before) return at;
      const end = endOfText(frames, start);
      const next = end + after.length;
      if (end < 0 || frames.slice(end, next) !== after) return at;
      const text = textIn(frames, start, end);
      if (text === undefined) return at;
      this.#text += text;
      at = next;
    }
  }

  /** Text of one event, or of a whole `chat.completion`. */
  read(data: string): void {
    if (this.#hasEnded) return;
    if (data === "[DONE]") {
      this.end();
      return;
    }
    this.flush();
    this.#emittedCount = 0;
    const chunk = fieldsOf(data);
    if (!chunk) return;
    if (isJsonObject(chunk["error"])) {
      const { code, message } = chunk["error"];
      this.#on({ kind: "error", code: textOf(code), message: textOf(message) });
      return;
    }
    const choices = chunk["choices"];
    const choice: unknown = Array.isArray(choices) ? choices.find(isFirst) : undefined;
    if (isJsonObject(choice)) {
      if (!this.#hasStarted) {
        this.#hasStarted = true;
        this.#emit({ kind: "start", created: countOf(chunk["created"]) });
      }
      this.#choice(choice);
    }
    const usage = usageOf(chunk["usage"]);
    if (usage) this.#emit({ kind: "usage", usage });
    if (this.#hasOnlyText && this.#emittedCount === 1) this.#textFrame ??= textFrameOf(data);
  }

  /** Emits the text that was read. Call it when no other event is at hand. */
  flush(): void {
    const text = this.#text;
    if (text === "") return;
    this.#text = "";
    this.#on({ kind: "text", text, logprobs: undefined });
  }

  /** The response has ended. May be called again. */
  end(): void {
    if (this.#hasEnded) return;
    this.flush();
    this.#hasEnded = true;
    this.#on({ kind: "end" });
  }

  #emit(delta: ChatDelta): void {
    this.#emittedCount += 1;
    this.#hasOnlyText = delta.kind === "text" && delta.logprobs === undefined;
    this.#on(delta);
  }

  #choice(choice: JsonObject): void {
    const said = isJsonObject(choice["delta"]) ? choice["delta"] : choice["message"];
    if (isJsonObject(said)) {
      // Two names of one field; some engines send both.
      const reasoning = textOf(said["reasoning_content"]) || textOf(said["reasoning"]);
      if (reasoning) this.#emit({ kind: "reasoning", text: reasoning });
      const text = textOf(said["content"]);
      if (text) this.#emit({ kind: "text", text, logprobs: logprobsOf(choice["logprobs"]) });
      const refusal = textOf(said["refusal"]);
      if (refusal) this.#emit({ kind: "refusal", text: refusal });
      const calls = said["tool_calls"];
      if (Array.isArray(calls)) for (const [position, call] of calls.entries()) this.#call(call, position);
    }
    const reason = textOf(choice["finish_reason"]);
    // Names of our runtime and vLLM, and of SGLang. For a stop token the value is its number.
    if (reason)
      this.#emit({ kind: "finish", reason, stop: textOf(choice["stop_reason"]) ?? textOf(choice["matched_stop"]) });
  }

  #call(part: unknown, position: number): void {
    if (!isJsonObject(part)) return;
    const key = countOf(part["index"]) ?? position;
    const given = isJsonObject(part["function"]) ? part["function"] : {};
    this.#calls ??= new Map();
    let call = this.#calls.get(key);
    if (!call) {
      call = { index: this.#startedCount, hasStarted: false, id: undefined, early: "" };
      this.#calls.set(key, call);
      this.#startedCount += 1;
    }
    call.id ??= textOf(part["id"]) || undefined;
    const text = textOf(given["arguments"]) ?? "";
    if (!call.hasStarted) {
      const name = textOf(given["name"]);
      if (!name) {
        call.early += text;
        return;
      }
      call.hasStarted = true;
      this.#emit({ kind: "call", index: call.index, id: call.id, name });
      if (call.early !== "") this.#emit({ kind: "arguments", index: call.index, text: call.early });
    }
    if (text !== "") this.#emit({ kind: "arguments", index: call.index, text });
  }
}

/** Deltas of a whole `chat.completion`. Throws where the body is not one. */
export function deltasOf(body: string): readonly ChatDelta[] {
  const deltas: ChatDelta[] = [];
  const reader = new ChatDeltas((delta) => deltas.push(delta));
  reader.read(body);
  if (!deltas.some(({ kind }) => kind === "start"))
    throw new TypeError("the engine's response is not a chat completion");
  reader.end();
  return deltas;
}

const quote = 34;
const backslash = 92;
const space = 32;

/** Index of the quote that ends the JSON string whose characters begin at `from`; -1: it does not end, or is none. */
function endOfText(json: string, from: number): number {
  for (let i = from; i < json.length; i++) {
    const code = json.charCodeAt(i);
    if (code === quote) return i;
    if (code < space) return -1;
    if (code === backslash) i += 1;
  }
  return -1;
}

/** Undefined for characters that are no JSON string. */
function textIn(json: string, start: number, end: number): string | undefined {
  const text = json.slice(start, end);
  if (!text.includes("\\")) return text;
  try {
    return JSON.parse(json.slice(start - 1, end + 1)) as string;
  } catch {
    return undefined;
  }
}

/** Undefined if `data` has another member of that name: within a string, its quotes would be escaped. */
function textFrameOf(data: string): TextFrame | undefined {
  const name = data.indexOf(contentName);
  if (name !== data.lastIndexOf(contentName)) return undefined;
  const start = name + contentName.length;
  const from = data.startsWith(': "', start) ? start + 3 : data.startsWith(':"', start) ? start + 2 : undefined;
  if (name < 0 || from === undefined) return undefined;
  const to = endOfText(data, from);
  if (to < 0) return undefined;
  const before = data.slice(0, from);
  return { before: { spaced: `data: ${before}`, tight: `data:${before}` }, after: `${data.slice(to)}\n\n` };
}

const contentName = '"content"';

const isFirst = (choice: unknown): boolean => isJsonObject(choice) && (choice["index"] ?? 0) === 0;

const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

const countOf = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;

function fieldsOf(data: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(data);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function logprobsOf(logprobs: unknown): readonly object[] | undefined {
  const content = isJsonObject(logprobs) ? logprobs["content"] : undefined;
  if (!Array.isArray(content)) return undefined;
  return content.filter(isJsonObject).map((entry) => {
    const top = entry["top_logprobs"];
    return {
      ...logprobOf(entry),
      ...(Array.isArray(top) ? { top_logprobs: top.filter(isJsonObject).map(logprobOf) } : {}),
    };
  });
}

/** Only the fields that the API defines: an engine may nest others too deep to be written again. */
function logprobOf({ token, logprob, bytes }: JsonObject): object {
  return {
    ...(typeof token === "string" ? { token } : {}),
    ...(typeof logprob === "number" ? { logprob } : {}),
    ...(bytes === null ? { bytes } : {}),
    ...(Array.isArray(bytes) ? { bytes: bytes.filter((byte) => typeof byte === "number") } : {}),
  };
}

function usageOf(usage: unknown): ChatUsage | undefined {
  if (!isJsonObject(usage)) return undefined;
  const input = countOf(usage["prompt_tokens"]) ?? 0;
  const output = countOf(usage["completion_tokens"]) ?? 0;
  const { prompt_tokens_details: prompt, completion_tokens_details: completion, estimated_cost: cost } = usage;
  return {
    input,
    output,
    total: countOf(usage["total_tokens"]) ?? input + output,
    cached: (isJsonObject(prompt) ? countOf(prompt["cached_tokens"]) : undefined) ?? 0,
    reasoning: (isJsonObject(completion) ? countOf(completion["reasoning_tokens"]) : undefined) ?? 0,
    estimatedCost: typeof cost === "number" ? cost : undefined,
  };
}
