// Body for the engine: the received bytes if nothing must change, otherwise rebuilt from the validated fields.
import { createHash } from "node:crypto";
import type { ApiFormat, FormatSkill } from "../../proto/api-formats.ts";
import { isJsonObject } from "../../proto/json-object.ts";
import { tierRank } from "../../proto/service-tier.ts";
import { type Admission, defaultMaxTokens } from "./admit.ts";
import type { Completion, NativeRequest } from "./completion.ts";
import { FieldUnsupported } from "./errors.ts";
import { messageBody } from "./message-body.ts";
import { formatFields } from "./output-format.ts";

/** Keys that every engine supports. Others are not forwarded: an engine might act on `best_of`, `cache_salt`, ... */
const engineKeys = [
  "model",
  "prompt",
  "messages",
  "max_tokens",
  "temperature",
  "top_p",
  "min_p",
  "top_k",
  "n",
  "stream",
  "stream_options",
  "logprobs",
  "top_logprobs",
  "echo",
  "stop",
  "stop_token_ids",
  "presence_penalty",
  "frequency_penalty",
  "repetition_penalty",
  "response_format",
  "user",
  "seed",
  "ignore_eos",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "chat_template_kwargs",
  "reasoning_effort",
  "continue_final_message",
] as const;
/** Keys that only our own runtime supports. */
const stokerKeys = [
  "return_tokens_as_token_ids",
  "prompt_cache_key",
  "prompt_cache_options",
  "reasoning",
  "data",
] as const;

const forStoker: ReadonlySet<string> = new Set([...engineKeys, ...stokerKeys]);
const forExternal: ReadonlySet<string> = new Set(engineKeys);

const askUsage = Buffer.from('{"stream_options":{"include_usage":true},');
const openBrace = 123;

/** False: the key requires a rebuilt body (`isRebuilt` of Completion). */
export function isForwardable(key: string): boolean {
  return forStoker.has(key);
}

/** `skills`: what all ready instances can; undefined: none is ready. Throws FieldUnsupported. */
export function forwardBody(completion: Completion, admission: Admission, skills?: ReadonlySet<FormatSkill>): Buffer {
  const { fields, bytes } = completion;
  const { model } = admission;
  const isExternal = model.engine === "external";
  const isContinued = isExternal && fields["continue_final_message"] === true;
  const maxTokens = maxTokensFor(completion, admission);
  const mustRebuild =
    completion.isRebuilt ||
    admission.isLowered ||
    model.servedName !== completion.model ||
    fields["prompt_cache_key"] != null ||
    !isUsageAsked(completion) ||
    (isExternal && isPattern(fields["response_format"])) ||
    isUsageRunning(completion, skills) ||
    isRenamed(fields, skills) ||
    isContinued ||
    isOrdered(admission) ||
    (isExternal && hasStokerKey(fields));
  if (mustRebuild) return rebuild(completion, admission, maxTokens, skills);
  const wantsUsage = completion.stream && fields["stream_options"] === undefined;
  if (maxTokens !== undefined && completion.maxTokens === undefined) {
    return spliced(Buffer.from(`{"max_tokens":${maxTokens},${wantsUsage ? askUsage.toString().slice(1) : ""}`), bytes);
  }
  return wantsUsage ? spliced(askUsage, bytes) : bytes;
}

const limitNames: Readonly<Record<ApiFormat, string>> = { responses: "max_output_tokens", messages: "max_tokens" };

/** Body of a request in its own format. */
export function nativeBody({ format, fields }: NativeRequest, completion: Completion, admission: Admission): Buffer {
  const maxTokens = maxTokensFor(completion, admission);
  const limit = maxTokens === undefined ? {} : { [limitNames[format]]: maxTokens };
  return Buffer.from(JSON.stringify({ ...fields, model: admission.model.servedName, ...limit }));
}

/** Body for a server that speaks only the Messages API. Throws FieldUnsupported. */
export function anthropicBody(completion: Completion, admission: Admission): Buffer {
  if (completion.kind !== "chat") throw new FieldUnsupported("prompt", "Use POST /v1/chat/completions.");
  const { model } = admission;
  const maxTokens = maxTokensFor(completion, admission) ?? admission.maxTokens;
  return messageBody(completion.fields, model.servedName, maxTokens, model.api !== "anthropic-2026-10-21");
}

/** Inserts the members of `prefix` before those of the body, a JSON object with at least one member. */
function spliced(prefix: Buffer, bytes: Buffer): Buffer {
  return Buffer.concat([prefix, bytes.subarray(bytes.indexOf(openBrace) + 1)]);
}

function rebuild(
  completion: Completion,
  admission: Admission,
  maxTokens: number | undefined,
  skills: ReadonlySet<FormatSkill> | undefined,
): Buffer {
  const { model, account } = admission;
  const { fields } = completion;
  const allowed = model.engine === "external" ? forExternal : forStoker;
  // A member that is undefined is not written. To delete it, or to copy the others one by one, takes longer.
  const body: Record<string, unknown> = { ...fields };
  for (const key in body)
    if (body[key] !== undefined && (body[key] === null || !allowed.has(key))) body[key] = undefined;
  body["model"] = model.servedName;
  if (isRenamed(fields, skills)) renameSampling(body, model.contextLength);
  const format = body["response_format"];
  if (isJsonObject(format)) {
    body["response_format"] = undefined;
    Object.assign(body, formatFields(format, model.engine, completion, skills));
  }
  body["max_tokens"] = maxTokens;
  // Lower ones run first; 0 is the default tier.
  if (isOrdered(admission)) body["priority"] = tierRank[admission.tier] - tierRank.default;
  // vLLM refuses to continue a message while it would also start another one, which is its default.
  if (model.engine === "external" && body["continue_final_message"] === true) body["add_generation_prompt"] = false;
  body["stream_options"] = completion.stream ? streamOptions(completion, skills) : undefined;
  const cacheKey = body["prompt_cache_key"];
  if (typeof cacheKey === "string") {
    // Unique per account: accounts with the same key must not share a cache.
    body["prompt_cache_key"] = createHash("sha256").update(`${account}\n${cacheKey}`).digest("base64url");
  }
  return Buffer.from(JSON.stringify(body));
}

function streamOptions(completion: Completion, skills: ReadonlySet<FormatSkill> | undefined): object {
  const isContinuous = isContinuousAsked(completion) || isUsageRunning(completion, skills);
  return isContinuous ? { include_usage: true, continuous_usage_stats: true } : { include_usage: true };
}

const isOrdered = ({ model, tier }: Admission): boolean => model.takesPriority === true && tier !== "default";

const isContinuousAsked = ({ usage }: Completion): boolean => usage === "continuous" || usage === "continuous_merge";

/**
 * True if the engine counts in every event, so that a client that disconnects pays for what it counted. Our runtime is asked for its
 * count afterwards. The agent removes what the client did not ask for.
 */
const isUsageRunning = ({ stream }: Completion, skills: ReadonlySet<FormatSkill> | undefined): boolean =>
  stream && skills?.has("continuous_usage") === true;

const hasItems = (value: unknown): boolean => Array.isArray(value) && value.length > 0;

/** llama.cpp's server ignores these fields under their usual names. */
const isRenamed = (fields: Completion["fields"], skills: ReadonlySet<FormatSkill> | undefined): boolean =>
  skills?.has("llama_sampling") === true &&
  (fields["repetition_penalty"] != null || hasItems(fields["stop_token_ids"]));

/** Tokens that a repetition penalty counts where the context's length is not known yet. */
const usualContext = 8_192;

/** Throws FieldUnsupported. */
function renameSampling(body: Record<string, unknown>, contextLength: number): void {
  if (hasItems(body["stop_token_ids"])) throw new FieldUnsupported("stop_token_ids", "Use stop with texts.");
  const { repetition_penalty: penalty } = body;
  body["repetition_penalty"] = undefined;
  // Its own window is 64 tokens; other engines count the whole context. Newer servers refuse -1, and allocate the window.
  if (penalty !== undefined)
    Object.assign(body, { repeat_penalty: penalty, repeat_last_n: contextLength || usualContext });
}

/** The one format of a received body that engines state in different words. */
const isPattern = (format: unknown): boolean => isJsonObject(format) && format["type"] === "regex";

/** Undefined: the hold covers the engine's own default. */
function maxTokensFor(completion: Completion, admission: Admission): number | undefined {
  const { model, maxTokens, isLowered, inputTokensBound } = admission;
  if (isLowered) return maxTokens;
  if (completion.maxTokens !== undefined) return completion.maxTokens;
  // Our runtime's default is the contract's. Another engine's may be 16 tokens, or the whole context.
  if (model.engine === "stoker" || model.contextLength === 0) return undefined;
  // Bytes are an upper bound of tokens; typical are three per token. A long prompt must leave space for the response.
  const isShort = inputTokensBound < model.contextLength / 2;
  const left = model.contextLength - Math.ceil(inputTokensBound / (isShort ? 1 : 3));
  return Math.max(1, Math.min(defaultMaxTokens, left));
}

/** True if the body requests usage, as it always must; the agent places it where the client wants it. */
function isUsageAsked({ stream, fields }: Completion): boolean {
  const options = fields["stream_options"];
  if (!stream) return options === undefined;
  if (options === undefined) return true;
  if (options === null || typeof options !== "object") return false;
  const { include_usage: include, ...rest } = options as Record<string, unknown>;
  return include === true && Object.keys(rest).every((key) => key === "continuous_usage_stats");
}

function hasStokerKey(fields: Readonly<Record<string, unknown>>): boolean {
  return stokerKeys.some((key) => fields[key] !== undefined);
}
