// What the spine works on: one request, read and validated by an edge, and the trace it leaves for the log.
import type { AccountId, InstanceId, KeyId, RequestId } from "../../proto/ids.ts";
import type { TokenRates } from "../../proto/money.ts";
import type { UsagePlacement } from "../../proto/ticket.ts";
import type { UsageFigures } from "../../proto/usage.ts";
import type { ModelAbout } from "../catalog/model-meta.ts";
import type { RateStanding } from "../quotas/rate-meter.ts";
import type { Task, TaskKind } from "./task.ts";

export interface Completion {
  readonly kind: "text_completion" | "chat" | TaskKind;
  /** As the caller wrote it. */
  readonly model: string;
  readonly stream: boolean;
  /** Sequences. */
  readonly n: number;
  /** Undefined: as much as the context allows, at most 16384. */
  readonly maxTokens: number | undefined;
  /** An upper bound of the prompt's UTF-8 bytes, tools included. */
  readonly promptBytes: number;
  /** Messages of a chat; 1 for a plain prompt. */
  readonly messages: number;
  readonly usage: UsagePlacement;
  /** The body as it came. */
  readonly bytes: Buffer;
  /** The validated body, with integers beyond 2^53 as JSON.rawJSON. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** True when `bytes` may not go to an engine as they are: an unknown key, an alias, a null that means a default. */
  readonly isRebuilt: boolean;
  /** Of a task other than text: it decides path, body and size; `bytes`, `fields` and `isRebuilt` are of text alone. */
  readonly task: Task | undefined;
  /** Models to ask instead, in this order, where nothing of the one before can serve. */
  readonly fallbacks?: readonly string[] | undefined;
  /** Answered at once with 429 rather than waiting for a place or an instance. */
  readonly failFast?: boolean;
  /** The caller's own end user, and his key of the prompt cache: kept beside the usage. */
  readonly endUser?: string | undefined;
  readonly cacheKey?: string | undefined;
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

/** Filled while the request runs; read once, when it has ended. */
export interface Trace {
  readonly requestId: RequestId;
  /** The caller's `x-request-id` and `x-service-source`: kept beside the usage. */
  readonly label: string | undefined;
  readonly source: string | undefined;
  /** Unix ms. */
  readonly admittedAtMs: number;
  /** Monotonic ms. */
  readonly startedMs: number;
  /** Of the body it came in, which stays in memory until the request has ended. */
  readonly bodyBytes: number;
  account: AccountId | undefined;
  key: KeyId | undefined;
  /** Public name, once it resolved. */
  model: string | undefined;
  /** What the owner of that model says of it: whether it will be gone. */
  about: ModelAbout | undefined;
  operation: Completion["kind"] | undefined;
  isStream: boolean;
  instance: InstanceId | undefined;
  attempts: number;
  /** Monotonic ms; 0 before the first data byte of an answer. */
  firstByteMs: number;
  usage: UsageFigures | undefined;
  /** Of the account and model, once they are known. */
  rate: RateStanding | undefined;
  /** What it is priced at, once it is admitted. */
  rates: TokenRates | undefined;
  /** Set when the budget lowered max_tokens. */
  loweredMaxTokens: number | undefined;
}
