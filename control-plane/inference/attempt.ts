// One try of a request at one instance: bytes from the agent to the client by callbacks, no stream objects.
// Invariants: ends exactly once; every state has a deadline; after the end nothing more reaches the sink.

import type { Deadline, Deadlines } from "../../proto/deadlines.ts";
import { decodeUsage, type Refusal, refusalHeader, type UsageFigures, usageHeader } from "../../proto/usage.ts";
import { isAllowedUsage, type UsageTerms } from "../../proto/usage-bounds.ts";
import type { ServiceError } from "../service-error.ts";
import type { AnswerSink, SinkListener } from "./answer-sink.ts";
import type { Trace } from "./completion.ts";
import { OutputCounter } from "./output-counter.ts";
import type { UpstreamCall, UpstreamHeaders, UpstreamListener } from "./upstream-call.ts";

export type AttemptEnd =
  /** The answer went out whole; without figures the hold waits for the record. `frames`: those with output, of a stream. */
  | { readonly kind: "answered"; readonly usage: UsageFigures | undefined; readonly frames: number | undefined }
  /** The engine answered with an error status; nothing of it was forwarded. */
  | {
      readonly kind: "engine-error";
      readonly status: number;
      readonly body: Buffer;
      readonly retryAfterSeconds: number | undefined;
      readonly usage: UsageFigures | undefined;
    }
  /** The agent refused it before it reached the engine. */
  | { readonly kind: "refused"; readonly refusal: Refusal; readonly retryAfterSeconds: number | undefined }
  /** No connection: nothing was sent. */
  | { readonly kind: "unreachable"; readonly cause: Error }
  /** Broke after it was sent: it may have run. `frames` frames with output were forwarded. */
  | { readonly kind: "broken" | "timeout"; readonly frames: number; readonly cause: Error }
  /** Nothing of it was delivered, and nothing will be: this process let it go. */
  | { readonly kind: "dropped"; readonly why: ServiceError }
  | { readonly kind: "client-gone"; readonly wasSent: boolean; readonly frames: number };

export interface AttemptLimits {
  /** Maximum time from the request to the first byte. */
  readonly maxFirstByteMs: number;
  /** Longest silence of the agent after the first byte. */
  readonly gapMs: number;
  /** Longest time a client may leave bytes unread. */
  readonly stalledClientMs: number;
  /** Comments before the first token of a stream. */
  readonly keepAliveMs: number;
}

export const defaultLimits: AttemptLimits = {
  maxFirstByteMs: 600_000,
  gapMs: 150_000,
  stalledClientMs: 150_000,
  keepAliveMs: 15_000,
};

const keepAlive = Buffer.from(": keep-alive\n\n");
/** Maximum length of an error body; the rest is read and discarded. */
const maxErrorBytes = 64 * 1024;

export interface AttemptDeps {
  readonly sink: AnswerSink;
  readonly trace: Trace;
  readonly isStream: boolean;
  readonly deadlines: Deadlines;
  readonly limits: AttemptLimits;
  /** Bounds of the usage that the agent may report; anything else is ignored. */
  readonly terms: UsageTerms;
  /** Called at the first byte of data, if there is one. */
  readonly firstByte: () => void;
  readonly end: (end: AttemptEnd) => void;
}

/** Maximum Retry-After that a host can set. */
const maxRetryAfterSeconds = 600;

export class Attempt implements Deadline, SinkListener, UpstreamListener {
  dueMs: number;
  readonly #deps: AttemptDeps;
  readonly #firstByteDueMs: number;
  readonly #counter: OutputCounter | undefined;
  #answer: "none" | "stream" | "whole" | "error" = "none";
  #isEnded = false;
  #isStalled = false;
  #call: UpstreamCall | undefined;
  #status = 0;
  #contentType = "application/json";
  #contentLength: string | undefined;
  #retryAfter: string | undefined;
  #refusal: Refusal | undefined;
  #usage: UsageFigures | undefined;
  #only: Buffer | undefined;
  #hasForwarded = false;
  #error: Buffer[] = [];
  #errorBytes = 0;

  constructor(deps: AttemptDeps) {
    this.#deps = deps;
    this.#counter = deps.isStream ? new OutputCounter() : undefined;
    const now = performance.now();
    this.#firstByteDueMs = now + deps.limits.maxFirstByteMs;
    this.dueMs = deps.isStream ? now + deps.limits.keepAliveMs : this.#firstByteDueMs;
    deps.deadlines.add(this);
    deps.sink.listener = this;
  }

  // The client's side.

  clientGone(): void {
    this.#end({ kind: "client-gone", wasSent: this.#call !== undefined, frames: this.#counter?.frames ?? 0 });
    this.#call?.abort(new Error("the client disconnected"));
  }

  dropped(why: ServiceError): void {
    this.#end({ kind: "dropped", why });
    this.#call?.abort(why);
  }

  stalled(): void {
    this.#isStalled = true;
    this.dueMs = performance.now() + this.#deps.limits.stalledClientMs;
    this.#call?.pause();
  }

  drained(): void {
    this.#isStalled = false;
    this.dueMs = performance.now() + this.#deps.limits.gapMs;
    this.#call?.resume();
  }

  // The deadlines' side.

  due(nowMs: number): void {
    if (this.#isStalled) {
      this.#deps.sink.abandon();
      this.clientGone();
      return;
    }
    const isWaiting = this.#counter !== undefined && this.#deps.trace.firstByteAtMs === 0;
    if (isWaiting && nowMs < this.#firstByteDueMs) {
      this.#deps.sink.write(keepAlive);
      this.dueMs = Math.min(nowMs + this.#deps.limits.keepAliveMs, this.#firstByteDueMs);
      return;
    }
    const cause = new Error("the agent was silent for too long");
    this.#end({ kind: "timeout", frames: this.#counter?.frames ?? 0, cause });
    this.#call?.abort(cause);
  }

  // The agent's side.

  onRequestStart(call: UpstreamCall): void {
    if (this.#isEnded) call.abort(new Error("ended before it was sent"));
    else this.#call = call;
  }

  onResponseStart(_: UpstreamCall, status: number, headers: UpstreamHeaders): void {
    if (status < 200 || this.#isEnded) return;
    this.#status = status;
    this.#refusal = one(headers[refusalHeader]) as Refusal | undefined;
    const usage = one(headers[usageHeader]);
    if (usage !== undefined) this.#usage = this.#allowed(decodeUsage(usage));
    this.#retryAfter = one(headers["retry-after"]);
    this.#contentType = one(headers["content-type"]) ?? this.#contentType;
    this.#contentLength = one(headers["content-length"]);
    if (status >= 300 || this.#refusal !== undefined) this.#answer = "error";
    else if (this.#counter && this.#contentType.startsWith("text/event-stream")) this.#answer = "stream";
    else this.#answer = "whole";
  }

  onResponseData(_: UpstreamCall, chunk: Buffer): void {
    if (this.#isEnded) return;
    const now = performance.now();
    if (this.#answer === "stream") {
      const counter = this.#counter as OutputCounter;
      counter.push(chunk);
      this.dueMs = now + (counter.hasData ? this.#deps.limits.gapMs : this.#deps.limits.keepAliveMs);
      if (counter.hasData) this.#sawFirstByte(now);
      this.#deps.sink.write(chunk);
    } else if (this.#answer === "whole") {
      this.dueMs = now + this.#deps.limits.gapMs;
      this.#sawFirstByte(now);
      this.#forwardPiece(chunk);
    } else if (this.#errorBytes < maxErrorBytes) {
      this.#error.push(chunk);
      this.#errorBytes += chunk.length;
    }
  }

  onResponseEnd(_: UpstreamCall, trailers: UpstreamHeaders): void {
    if (this.#isEnded) return;
    const { sink } = this.#deps;
    if (this.#answer === "error") {
      this.#end(this.#errorEnd());
      return;
    }
    const usage = one(trailers[usageHeader]);
    if (usage !== undefined) this.#usage = this.#allowed(decodeUsage(usage));
    // First the end, then the last bytes: the response may close, and its line be written, before a promise resolves.
    const frames = this.#answer === "stream" ? this.#counter?.frames : undefined;
    this.#end({ kind: "answered", usage: this.#usage, frames });
    if (this.#answer === "stream" || this.#hasForwarded) sink.end();
    else sink.whole(this.#status, this.#contentType, this.#only ?? Buffer.alloc(0));
  }

  onResponseError(_: UpstreamCall | undefined, cause: Error): void {
    if (this.#call === undefined) this.#end({ kind: "unreachable", cause });
    else this.#end({ kind: "broken", frames: this.#counter?.frames ?? 0, cause });
  }

  /** Data of the answer has gone to the client: no other instance may answer now. */
  get hasForwardedData(): boolean {
    return this.#hasForwarded || (this.#counter?.hasData ?? false);
  }

  /** Undefined for figures that the ticket does not allow: the hold then waits for the record. */
  #allowed(usage: UsageFigures | undefined): UsageFigures | undefined {
    return usage && isAllowedUsage(usage, this.#deps.terms) ? usage : undefined;
  }

  #errorEnd(): AttemptEnd {
    const seconds = Number(this.#retryAfter);
    const retryAfterSeconds = seconds > 0 ? Math.min(seconds, maxRetryAfterSeconds) : undefined;
    if (this.#refusal) return { kind: "refused", refusal: this.#refusal, retryAfterSeconds };
    const body = Buffer.concat(this.#error);
    return { kind: "engine-error", status: this.#status, body, retryAfterSeconds, usage: this.#usage };
  }

  #forwardPiece(chunk: Buffer): void {
    const { sink } = this.#deps;
    if (!this.#hasForwarded) {
      // Most answers come in one piece and leave in one write, once the agent's figures are known to be whole.
      if (!this.#only && String(chunk.length) === this.#contentLength) {
        this.#only = chunk;
        return;
      }
      this.#hasForwarded = true;
      sink.begin(this.#status, this.#contentType, this.#contentLength);
    }
    sink.write(chunk);
  }

  #sawFirstByte(now: number): void {
    const { trace } = this.#deps;
    if (trace.firstByteAtMs !== 0) return;
    trace.firstByteAtMs = now;
    this.#deps.firstByte();
  }

  #end(end: AttemptEnd): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    if ("usage" in end) this.#deps.trace.usage = end.usage;
    this.#deps.deadlines.delete(this);
    this.#deps.sink.listener = undefined;
    this.#deps.end(end);
  }
}

function one(value: string | string[] | undefined): string | undefined {
  return typeof value === "string" ? value : value?.[0];
}
