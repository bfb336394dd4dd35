// State of one request from its headers to its log line. The line is written once, when the response closes, and never contains
// a URL, a key or a prompt.
import type { IncomingHttpHeaders } from "node:http";
import type { Logger } from "pino";
import type { Deadlines } from "../../../proto/deadlines.ts";
import type { AccountId, InstanceId, KeyId, RequestId } from "../../../proto/ids.ts";
import type { TokenRates } from "../../../proto/money.ts";
import { readTraceContext } from "../../../proto/trace-context.ts";
import type { Span, Tracing } from "../../../proto/tracing.ts";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import type { UsageFigures } from "../../../proto/usage.ts";
import type { Caller } from "../../accounts/caller.ts";
import type { Session } from "../../accounts/sessions.ts";
import type { Rejections } from "../../billing/rejections.ts";
import type { ModelAbout } from "../../catalog/model-meta.ts";
import { type ByteBudget, smallBytes } from "../../inference/byte-budget.ts";
import type { Completion, Trace } from "../../inference/completion.ts";
import type { LiveMetrics } from "../../inference/live-metrics.ts";
import type { RateFigures, RateStanding } from "../../quotas/rate-meter.ts";
import type { RequestTally } from "../../series/request-tally.ts";
import type { Dialect, Refusal } from "../errors/error-body.ts";
import type { EdgeMetrics, RouteMeter } from "./edge-metrics.ts";
import { writeMessagesRateHeaders, writeRateHeaders } from "./rate-headers.ts";

declare module "fastify" {
  interface FastifyRequest {
    state: RequestState | null;
  }
}

export interface StateDeps {
  readonly log: Logger;
  readonly metrics: EdgeMetrics;
  readonly live: LiveMetrics;
  readonly tally: Pick<RequestTally, "note">;
  readonly rejections: Pick<Rejections, "note">;
  readonly bodies: ByteBudget;
  /** Undefined: traces are off. */
  readonly tracing?: Tracing | undefined;
  /** Detects stalled bodies. */
  readonly waits: Deadlines;
  /** Unix ms. */
  readonly unixMs: () => number;
  /** Called when a response has closed. */
  readonly onClosed: () => void;
}

/** The used part of a ServerResponse. `writableFinished` is false if the client disconnected before the end. */
export interface ClosingResponse {
  readonly headersSent: boolean;
  readonly statusCode: number;
  readonly writableFinished: boolean;
  on(event: "close", listener: () => void): unknown;
}

/** The sink of a relayed response. */
interface ClientSide {
  /** The client disconnected before the end. */
  clientGone(): void;
}

/** Memory of a buffered response. */
export interface BufferedBytes {
  /** Called once, when the response has closed. */
  letGo(): void;
}

const labelForm = /^[\w-]{1,64}$/;

export class RequestState implements Trace {
  requestId: RequestId;
  /** `x-request-id` of the client: a label, never a key. */
  readonly label: string | undefined;
  /** `x-service-source`: stored with the usage. */
  readonly source: string | undefined;
  admittedAtMs: number;
  readonly startedMs = performance.now();
  readonly dialect: Dialect;
  /** The client's address, behind trusted proxies. */
  address: string | undefined;
  caller: Caller | undefined;
  /** As authenticated: an operator who acts as `caller`, otherwise the same. */
  credential: Caller | undefined;
  /** Session of a caller with the cookie of a signed-in browser. */
  session: Session | undefined;
  account: AccountId | undefined;
  key: KeyId | undefined;
  model: string | undefined;
  about: ModelAbout | undefined;
  operation: Completion["kind"] | undefined;
  /** A request for inference: rejections of it are listed to its account. */
  isInference = false;
  /** As the request names it, before it is resolved. */
  namedModel: string | undefined;
  isStream = false;
  /** Set for inference while traces are on. */
  span: Span | undefined;
  /** The request came over TLS, to this port or to a trusted proxy. */
  isSecure = false;
  bodyBytes = 0;
  instance: InstanceId | undefined;
  attempts = 0;
  endUser: string | undefined;
  firstByteAtMs = 0;
  usage: UsageFigures | undefined;
  rate: RateStanding | undefined;
  isCountedForKey = false;
  readonly userHeader: string | undefined;
  loweredMaxTokens: number | undefined;
  rates: TokenRates | undefined;
  /** Additional headers of the response, names and values in turn. */
  extraHeaders: readonly string[] = [];
  refusal: Refusal | undefined;
  // Objects, not closures over the `this` of their constructors: with those, each young collection promoted 5 KB per request
  // (docs/BENCH.md).
  client: ClientSide | undefined;
  buffered: BufferedBytes | undefined;
  isClosed = false;
  readonly #deps: StateDeps;
  readonly meter: RouteMeter;
  readonly #res: ClosingResponse;

  constructor(
    deps: StateDeps,
    meter: RouteMeter,
    dialect: Dialect,
    requestId: string,
    headers: IncomingHttpHeaders,
    res: ClosingResponse,
  ) {
    const label = headers["x-request-id"];
    const source = headers["x-service-source"];
    this.#deps = deps;
    this.meter = meter;
    this.#res = res;
    this.dialect = dialect;
    this.requestId = requestId as RequestId;
    this.label = typeof label === "string" && labelForm.test(label) ? label : undefined;
    this.userHeader = userIn(headers);
    this.source = typeof source === "string" && source !== "" ? source : undefined;
    this.admittedAtMs = deps.unixMs();
    meter.inFlight += 1;
    res.on("close", () => this.#closed());
  }

  /** Makes this request one of several that read the same stream. */
  continues({ id, startedAtMs }: { readonly id: RequestId; readonly startedAtMs: number }): void {
    this.requestId = id;
    this.admittedAtMs = startedAtMs;
  }

  /** Takes over what a run outside of this request knows at its first byte, for the headers. */
  announces(run: Trace): void {
    this.about = run.about;
    this.rate = run.rate;
    this.loweredMaxTokens = run.loweredMaxTokens;
  }

  /** Takes over what a run outside of this request found, for the log line and the counts. */
  shows(run: Trace): void {
    this.model = run.model;
    this.operation = run.operation;
    this.isStream = run.isStream;
    this.instance = run.instance;
    this.attempts = run.attempts;
    this.endUser = run.endUser;
    this.firstByteAtMs = run.firstByteAtMs;
    this.usage = run.usage;
    this.rates = run.rates;
  }

  get waits(): Deadlines {
    return this.#deps.waits;
  }

  /** Counts more bytes of the body as held until the response closes. Returns false when there is no capacity or it has closed. */
  holdBody(bytes: number): boolean {
    const { bodyBytes } = this;
    if (this.isClosed || !this.hasCapacityFor(bytes)) return false;
    this.#deps.bodies.add(this.caller?.account ?? "", bytes, bodyBytes);
    this.bodyBytes = bodyBytes + bytes;
    return true;
  }

  /** Returns true when these bytes would be held now. Small bodies always are, whatever large ones are held. */
  hasCapacityFor(bytes: number): boolean {
    const { bodyBytes } = this;
    return bodyBytes + bytes < smallBytes || this.#deps.bodies.mayTake(this.caller?.account ?? "", bytes, bodyBytes);
  }

  /** Names and values, in turn. */
  headers(): string[] {
    const headers = [
      "x-request-id",
      this.label ?? this.requestId,
      "x-stoker-request-id",
      this.requestId,
      "openai-processing-ms",
      String(Math.round(performance.now() - this.startedMs)),
    ];
    if (this.dialect === "messages") headers.push("request-id", this.requestId);
    if (this.rate) this.#writeRate(headers, this.rate.standing());
    // RFC 9745: a structured date in Unix seconds. RFC 8594: an HTTP date, from which the model may be gone.
    const { deprecatedAtMs = null, sunsetAtMs = null } = this.about ?? {};
    if (deprecatedAtMs !== null) headers.push("deprecation", `@${unixSeconds(deprecatedAtMs)}`);
    if (sunsetAtMs !== null) headers.push("sunset", new Date(sunsetAtMs).toUTCString());
    if (this.extraHeaders.length > 0) headers.push(...this.extraHeaders);
    return headers;
  }

  #writeRate(headers: string[], figures: RateFigures): void {
    if (this.dialect === "messages") writeMessagesRateHeaders(headers, figures, this.#deps.unixMs());
    else writeRateHeaders(headers, figures);
  }

  /** Starts the trace of a request for inference whose caller is known: others could have any number of traces exported. */
  startTrace(headers: IncomingHttpHeaders): void {
    const { tracing } = this.#deps;
    if (!tracing || !this.isInference) return;
    const client = readTraceContext(headers["traceparent"], headers["tracestate"]);
    const { method, route } = this.meter;
    this.span = tracing.ofClient(`${method} ${route}`, client, { kind: "server", startMs: this.startedMs });
  }

  #closed(): void {
    this.isClosed = true;
    const res = this.#res;
    const isGone = !res.writableFinished;
    if (isGone) this.client?.clientGone();
    this.buffered?.letGo();
    this.meter.inFlight -= 1;
    if (this.bodyBytes > 0) this.#deps.bodies.give(this.caller?.account ?? "", this.bodyBytes);
    // 499 appears in logs and metrics only: the client disconnected before there was a status.
    const status = res.headersSent ? res.statusCode : 499;
    const seconds = (performance.now() - this.startedMs) / 1000;
    this.meter.ended(status, seconds);
    const gone = isGone ? "client_gone" : undefined;
    if (this.operation !== undefined) {
      this.#deps.metrics.served(this, seconds, this.refusal?.kind ?? gone);
      if (this.refusal === undefined && !isGone) this.#deps.live.note(this);
      if (this.caller) this.#deps.tally.note(this.caller.account, this, this.refusal?.status ?? gone ?? status);
    }
    if (this.isInference && this.refusal !== undefined && this.firstByteAtMs === 0) this.#rejected(this.refusal);
    if (this.span?.context.isSampled) this.#endSpan(this.span, status, this.refusal?.code ?? gone);
    this.#write(status, seconds, this.refusal?.code ?? gone);
    this.#deps.onClosed();
  }

  #rejected({ status, code }: Refusal): void {
    const { caller } = this;
    if (!caller || caller.account === "") return;
    this.#deps.rejections.note({
      id: this.requestId,
      account: caller.account,
      key: caller.key,
      atMs: this.admittedAtMs,
      model: this.model ?? this.namedModel ?? "",
      route: this.meter.route,
      status,
      code,
      label: this.label ?? null,
    });
  }

  /** OpenTelemetry's semantic conventions for generative AI and HTTP; no prompt and no response. */
  #endSpan(span: Span, status: number, error: string | undefined): void {
    const { meter, usage, operation } = this;
    const model = this.model ?? this.namedModel;
    if (operation) span.rename(model === undefined ? operation : `${operation} ${model}`);
    span.set({
      "http.request.method": meter.method,
      "http.route": meter.route,
      "http.response.status_code": status,
      "gen_ai.operation.name": operation,
      "gen_ai.provider.name": "stoker",
      "gen_ai.request.model": this.namedModel,
      "gen_ai.response.model": this.model,
      "gen_ai.usage.input_tokens": usage?.input,
      "gen_ai.usage.output_tokens": usage?.output,
      "gen_ai.usage.cache_read.input_tokens": usage?.cachedInput,
      "gen_ai.request.stream": operation && this.isStream,
      "stoker.request_id": this.requestId,
      "stoker.account": this.caller?.account || undefined,
      "stoker.attempts": this.attempts || undefined,
      "stoker.first_byte_ms": this.firstByteAtMs > 0 ? this.firstByteAtMs - this.startedMs : undefined,
    });
    span.end({ error: status >= 400 ? (error ?? String(status)) : undefined });
  }

  #write(status: number, seconds: number, error: string | undefined): void {
    const { usage, refusal } = this;
    const line = {
      requestId: this.requestId,
      clientRequestId: this.label,
      trace_id: this.span?.context.traceId,
      method: this.meter.method,
      route: this.meter.route,
      account: this.caller?.account || undefined,
      operator: this.caller?.operator,
      status,
      ms: Math.round(seconds * 1e6) / 1e3,
      error,
      model: this.model,
      stream: this.operation && this.isStream,
      instance: this.instance,
      attempts: this.attempts || undefined,
      firstByteMs: this.firstByteAtMs > 0 ? Math.round((this.firstByteAtMs - this.startedMs) * 1e3) / 1e3 : undefined,
      inputTokens: usage?.input,
      cachedTokens: usage?.cachedInput,
      outputTokens: usage?.output,
      maxTokensLowered: this.loweredMaxTokens,
      err: refusal?.cause,
    };
    // A 503 without a cause is an expected state: a model is asleep or stopped, or no host has capacity.
    if (status === 503 && refusal !== undefined && refusal.cause === undefined) this.#deps.log.warn(line, "request");
    else if (status >= 500) this.#deps.log.error(line, "request");
    else this.#deps.log.info(line, "request");
  }
}

/** End user that Open WebUI names: its id, otherwise its e-mail address. */
function userIn(headers: IncomingHttpHeaders): string | undefined {
  const user = headers["x-openwebui-user-id"] || headers["x-openwebui-user-email"];
  return typeof user === "string" && user !== "" ? user.slice(0, 256) : undefined;
}
