// Input of the spine: one request, validated by an edge, and its trace for the log.
import type { ApiFormat, FormatSkill } from "../../proto/api-formats.ts";
import type { AccountId, InstanceId, KeyId, RequestId } from "../../proto/ids.ts";
import type { TokenRates } from "../../proto/money.ts";
import type { UsagePlacement } from "../../proto/ticket.ts";
import type { Span } from "../../proto/tracing.ts";
import type { UsageFigures } from "../../proto/usage.ts";
import type { ModelAbout } from "../catalog/model-meta.ts";
import type { RateStanding } from "../quotas/rate-meter.ts";
import type { Task, TaskKind } from "./task.ts";

export interface Completion {
  readonly kind: "text_completion" | "chat" | TaskKind;
  /** As requested, or a model of the requested alias. */
  readonly model: string;
  /** The requested alias: `model` is no alias then, and a token that lists the alias may use it. */
  readonly alias?: string;
  readonly stream: boolean;
  /** Sequences. */
  readonly n: number;
  /** Undefined: up to the context, at most 16384. */
  readonly maxTokens: number | undefined;
  /** An upper bound of the prompt's UTF-8 bytes, tools included. */
  readonly promptBytes: number;
  /** Messages of a chat; 1 for a plain prompt. */
  readonly messages: number;
  readonly usage: UsagePlacement;
  /** Received body. */
  readonly bytes: Buffer;
  /** The validated body, with integers beyond 2^53 as JSON.rawJSON. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Field of the request that `response_format` comes from, if another. */
  readonly formatParam?: string | undefined;
  /** True when `bytes` may not go to an engine as they are: an unknown key, an alias, a null that means a default. */
  readonly isRebuilt: boolean;
  /** Set for a task other than text: it decides path, body and size, and `bytes`, `fields` and `isRebuilt` are not used. */
  readonly task: Task | undefined;
  /** Models to try, in this order, if the one before cannot serve the request. */
  readonly fallbacks?: readonly string[] | undefined;
  /** Refused at once with 429 instead of waiting for a slot or an instance. */
  readonly failFast?: boolean;
  /** `service_tier` as requested. */
  readonly serviceTier?: string | undefined;
  /** The caller's own end user. */
  readonly endUser?: string | undefined;
  /** The prompt cache key, kept with the names of the request. */
  readonly cacheKey?: string | undefined;
  /** Writes the request in its own format, for engines that speak it; undefined: it is translated for every engine. */
  readonly native?: (() => NativeRequest | undefined) | undefined;
}

/** A request of a chat in the format that it arrived in. Its reply is that of a chat either way: the agent reads it. */
export interface NativeRequest {
  readonly format: ApiFormat;
  /** Abilities that an engine needs for the translated request. */
  readonly needs: readonly FormatSkill[];
  /** Body without the name of the model and the limit of tokens. */
  readonly fields: Readonly<Record<string, unknown>>;
}

const noBytes = Buffer.alloc(0);

/** A request of a task other than text. */
export const taskCompletion = (kind: TaskKind, model: string, task: Task): Completion => ({
  kind,
  model,
  stream: false,
  n: 1,
  maxTokens: undefined,
  promptBytes: 0,
  messages: 0,
  usage: "drop",
  bytes: noBytes,
  fields: {},
  isRebuilt: false,
  task,
});

/** Filled while the request runs; read at its end. */
export interface Trace {
  readonly requestId: RequestId;
  /** The caller's `x-request-id` and `x-service-source`: stored with the usage. */
  readonly label: string | undefined;
  readonly source: string | undefined;
  /** The end user in the headers of Open WebUI: counts for keys that trust it. */
  readonly userHeader: string | undefined;
  /** The client's; undefined for work without a connection. */
  readonly address?: string | undefined;
  /** Unix ms. */
  readonly admittedAtMs: number;
  /** Monotonic ms. */
  readonly startedMs: number;
  /** Size of the body, which stays in memory until the request has ended. */
  readonly bodyBytes: number;
  /** Undefined: traces are off. */
  readonly span: Span | undefined;
  account: AccountId | undefined;
  key: KeyId | undefined;
  /** Public name, once resolved. */
  model: string | undefined;
  /** The owner's description of that model, with its deprecation. */
  about: ModelAbout | undefined;
  operation: Completion["kind"] | undefined;
  isStream: boolean;
  instance: InstanceId | undefined;
  attempts: number;
  /** The end user of the request, once admitted: a part of its usage. */
  endUser: string | undefined;
  /** Monotonic ms; 0 before the first data byte of an answer. */
  firstByteAtMs: number;
  usage: UsageFigures | undefined;
  /** Rate limits of account and model, once known. */
  rate: RateStanding | undefined;
  /** The request was admitted once, so its key's limits do not refuse it any more. */
  isCountedForKey: boolean;
  /** Prices, once admitted. */
  rates: TokenRates | undefined;
  /** Set when the budget lowered max_tokens. */
  loweredMaxTokens: number | undefined;
}
