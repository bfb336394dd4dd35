import { distance } from "fastest-levenshtein";
import type { UsagePlacement } from "../../../proto/ticket.ts";
import type { Completion } from "../../inference/completion.ts";
import { isForwardable } from "../../inference/forward-body.ts";
import { bodyLimitBytes, mediaLimitBytes, type ReadBody } from "../body/json-body.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { inferenceRefusals } from "../errors/error-responses.ts";
import { bodyTooLarge, fieldUnknown, valueUnsupported } from "../errors/errors.ts";
import { ChatRequest } from "./chat-request-schemas.ts";
import { checkFormat } from "./check-format.ts";
import { ChatAnswer, CompletionAnswer, CompletionRequest } from "./completion-request-schemas.ts";
import { constraintOf } from "./constraints.ts";
import { compatPost, type Relays } from "./relay-route.ts";

const refusals = [...inferenceRefusals, 405];

export function addCompletionRoutes(endpoints: Endpoints, relays: Relays): void {
  const common = { ...compatPost, refusals } as const;
  endpoints.addInference(
    {
      ...common,
      path: "/v1/completions",
      bodyLimitBytes: mediaLimitBytes,
      summary: "Create a text completion; server-sent events with `stream`",
      body: CompletionRequest,
      answer: CompletionAnswer,
    },
    relays.json(readTextCompletion),
  );
  endpoints.addInference(
    {
      ...common,
      path: "/v1/compat/chat/completions",
      bodyLimitBytes: mediaLimitBytes,
      summary: "Create a chat completion; server-sent events with `stream`",
      body: ChatRequest,
      answer: ChatAnswer,
    },
    relays.json(readChat),
  );
}

type Body = Record<string, unknown>;

export function readTextCompletion(body: Body, read: ReadBody): Completion {
  if (read.bytes.length > bodyLimitBytes && body["data"] == null) throw bodyTooLarge(bodyLimitBytes);
  const bestOf = body["best_of"];
  if (bestOf != null && bestOf !== 1 && bestOf !== (body["n"] ?? 1))
    throw valueUnsupported("best_of is not supported. Leave it out and use n for several choices.", {
      param: "best_of",
    });
  const completion = readCompletion("text_completion", body, read, Buffer.byteLength(body["prompt"] as string), 1);
  checkFormat(completion.fields, completion.formatParam);
  return completion;
}

/** The length of the body bounds messages and tools together: JSON is never shorter than its text. */
export function readChat(body: Body, read: ReadBody): Completion {
  const messages = body["messages"] as readonly { readonly content?: unknown }[];
  if (read.bytes.length > bodyLimitBytes && !messages.some(holdsMedia)) throw bodyTooLarge(bodyLimitBytes);
  const completion = readCompletion("chat", body, read, read.bytes.length, messages.length);
  checkFormat({ ...body, response_format: completion.fields["response_format"] }, completion.formatParam);
  return completion;
}

/** True for a message with an image, audio or file: its body may be larger. */
function holdsMedia({ content }: { readonly content?: unknown }): boolean {
  return Array.isArray(content) && content.some((part: { readonly type?: unknown }) => part.type !== "text");
}

const knownFields = new Set([...Object.keys(ChatRequest.properties), ...Object.keys(CompletionRequest.properties)]);
/** Shorter names differ by one letter without being the same word. */
const minMisspelt = 6;
const longFields = [...knownFields].filter((name) => name.length >= minMisspelt);
/** Unknown fields that are compared: a body may have any number of them. */
const maxUnknown = 32;

/**
 * Unknown fields are ignored, because clients send what other servers know. One that differs from a known field by a letter is a typing
 * error: ignored, it would cost the customer a limit. Throws fieldUnknown.
 */
function refuseMisspelt(key: string): void {
  if (key.length < minMisspelt || key.length > 64) return;
  // Cheaper than a distance, and false for nearly all.
  for (const known of longFields)
    if (Math.abs(known.length - key.length) <= 1 && distance(key, known) === 1) throw fieldUnknown(key, known);
}

function readCompletion(
  kind: Completion["kind"],
  body: Body,
  { bytes, exact }: ReadBody,
  promptBytes: number,
  messages: number,
): Completion {
  let fields = exact ?? body;
  const constraint = constraintOf(fields);
  if (constraint) fields = { ...fields, response_format: constraint.format };
  let isRebuilt = constraint !== undefined;
  let unknown = 0;
  for (const key in body) {
    if (isForwardable(key)) continue;
    isRebuilt = true;
    if (knownFields.has(key)) continue;
    refuseMisspelt(key);
    unknown += 1;
    if (unknown === maxUnknown) break;
  }
  const given = body["max_tokens"];
  const alias = body["max_completion_tokens"];
  const maxTokens = (given ?? alias ?? undefined) as number | undefined;
  if (given === null) isRebuilt = true;
  if (maxTokens !== undefined && given == null) fields = { ...fields, max_tokens: maxTokens };
  return {
    kind,
    model: body["model"] as string,
    stream: body["stream"] === true,
    n: (body["n"] ?? 1) as number,
    maxTokens,
    promptBytes,
    messages,
    usage: placementOf(body["stream_options"] as StreamOptions),
    bytes,
    fields,
    formatParam: constraint?.param,
    isRebuilt,
    task: undefined,
    fallbacks: (body["models"] ?? undefined) as readonly string[] | undefined,
    failFast: body["fail_fast"] === true,
    serviceTier: (body["service_tier"] ?? undefined) as string | undefined,
    endUser: (body["safety_identifier"] ?? body["user"] ?? undefined) as string | undefined,
    cacheKey: (body["prompt_cache_key"] ?? undefined) as string | undefined,
  };
}

type StreamOptions =
  | { readonly include_usage?: boolean | null; readonly continuous_usage_stats?: boolean | null }
  | null
  | undefined;

/** Position of usage in a stream: on the last chunk by default. */
function placementOf(options: StreamOptions): UsagePlacement {
  if (options?.include_usage === false) return "drop";
  if (options?.continuous_usage_stats === true) {
    return options.include_usage === true ? "continuous" : "continuous_merge";
  }
  return options?.include_usage === true ? "extra" : "merge";
}
