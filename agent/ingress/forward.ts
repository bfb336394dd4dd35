// One request from admission to its end: waiting at the gate, bytes through the engine, usage on record, last bytes.
// Invariants: the record is durable before the last bytes leave; the gate's permits are held until the engine is done
// with the request; every state has a deadline; every path ends in #done exactly once.
import type { Pool } from "undici";
import { authorizationFor } from "../../proto/bearer-secret.ts";
import type { Deadline } from "../../proto/deadlines.ts";
import { audioBoundHeader } from "../../proto/engine-headers.ts";
import { tierRank } from "../../proto/service-tier.ts";
import type { Ticket } from "../../proto/ticket.ts";
import { traceHeaders } from "../../proto/trace-context.ts";
import type { Span } from "../../proto/tracing.ts";
import { encodeUsage, usageHeader } from "../../proto/usage.ts";
import type { Answer } from "./answer.ts";
import type { AttemptRecord, RecordText, Settled } from "./attempt-record.ts";
import { EngineCall, type EngineListener } from "./engine-call.ts";
import { eventsOf, formatOf } from "./engine-paths.ts";
import { askEngineUsage } from "./engine-usage.ts";
import { allowedFigures, type EngineFigures, invalidUsage, maxOutput, noFigures, type Price } from "./find-usage.ts";
import { chatAnswer } from "./format-answers.ts";
import type { Gate, Waiter } from "./gate.ts";
import { type Outcome, outcomeOf } from "./ingress-metrics.ts";
import { MessageFrames } from "./message-frames.ts";
import { PassedBytes } from "./passed-bytes.ts";
import type { Plane } from "./plane.ts";
import { errorBody, refuse, sendError } from "./refuse.ts";
import { ResponseFrames } from "./response-frames.ts";
import { type Source, StreamAnswer } from "./stream-answer.ts";
import { type Cuttable, longAudio, type Target } from "./target.ts";
import { saltedBody, tenantHeaders } from "./tenant.ts";
import { audioBoundMs, priceOf, type ReportedUnits, unitAnswer, unitFigures, unitWeight } from "./unit-answer.ts";
import { UsageFrames } from "./usage-frames.ts";
import { isAnswer, wholeAnswer } from "./whole-answer.ts";

type Phase = "waiting" | "engine" | "settling" | "ended";
type CutReason = "client_gone" | "engine_error" | "engine_timeout" | "drained";

/** Status where no byte was sent before. */
const cutStatus: Readonly<Record<CutReason, number>> = {
  client_gone: 499,
  engine_error: 502,
  engine_timeout: 504,
  drained: 503,
};
const closingMs = 5_000;
const chatPath = "/v1/chat/completions";

const framesOf = { responses: ResponseFrames, messages: MessageFrames } as const;

interface ForwardRequest {
  readonly ticket: Ticket;
  readonly record: AttemptRecord;
  readonly answer: Answer;
  /** As the engine sees it, e.g. `/v1/chat/completions`. */
  readonly path: string;
  readonly contentType: string;
  readonly body: Buffer;
  /** Monotonic ms. */
  readonly arrivedMs: number;
}

export class Forward implements Waiter, Deadline, Source, Cuttable, EngineListener {
  readonly account: string;
  readonly body: Buffer;
  readonly permits: number;
  readonly isHasty: boolean;
  readonly tier: number;
  readonly cost: number;
  readonly weight: number;
  readonly promptTokens: number;
  dueMs: number;

  readonly #plane: Plane;
  readonly #target: Target;
  readonly #gate: Gate;
  readonly #pool: Pool;
  readonly #request: ForwardRequest;
  readonly #price: Price;
  readonly #engine: EngineCall;
  #phase: Phase = "waiting";
  #isCut = false;
  #isRecorded = false;
  /** An exception was handled. */
  #hasFailed = false;
  #stream: StreamAnswer | undefined;
  #frames: UsageFrames | undefined;
  #passing: PassedBytes | undefined;
  #queueMs = 0;
  /** Monotonic ms at which the engine got the request; 0: it did not. */
  #sentMs = 0;
  /** Undefined: traces are off. */
  readonly #span: Span | undefined;
  /** Reply in one piece, for its finish reasons. */
  #whole: Buffer | undefined;
  #firstByteMs = 0;
  #record: RecordText | undefined;
  #settled: Settled = {
    figures: noFigures,
    source: "estimated",
    endReason: "refused",
    httpStatus: 503,
  };

  constructor(plane: Plane, target: Target, request: ForwardRequest) {
    const { ticket } = request;
    this.#plane = plane;
    this.#target = target;
    this.#pool = target.pool;
    this.#request = request;
    this.body = request.body;
    this.#price = priceOf(ticket);
    this.#engine = new EngineCall(this, plane.limits.maxAnswerBytes, eventsOf(ticket, request.path));
    this.account = ticket.account;
    this.#span =
      plane.tracing &&
      ticket.trace &&
      plane.tracing.within("serve", ticket.trace, { kind: "server", startMs: request.arrivedMs });
    const audioMs = audioBoundMs(ticket.units);
    const isLong = audioMs !== undefined && audioMs > longAudio.fromMs;
    this.#gate = isLong ? target.longAudioGate : target.gate;
    this.permits = isLong ? Math.ceil((ticket.units?.asked.audioMs ?? 0) / 1000) : ticket.permits;
    this.isHasty = ticket.failFast === true;
    this.weight = ticket.weight ?? 1;
    this.tier = tierRank[ticket.tier ?? "default"] ?? tierRank.default;
    this.promptTokens = this.#inputEstimate();
    const tokens = this.promptTokens + ticket.permits * Math.min(ticket.maxTokens, target.typicalOutput);
    this.cost = tokens + unitWeight(ticket.units?.asked);
    this.dueMs = plane.clock() + plane.limits.maxWaitMs;
  }

  enter(): void {
    this.#request.answer.onClose(() => this.#clientClosed());
    this.#plane.deadlines.add(this);
    this.#gate.enter(this);
  }

  // Called by the gate.

  admitted(): void {
    const { ticket, path, contentType, body, arrivedMs } = this.#request;
    const plane = this.#plane;
    const now = plane.clock();
    this.#phase = "engine";
    this.#queueMs = Math.round(now - arrivedMs);
    this.#sentMs = now;
    this.#span?.child("queue", { startMs: arrivedMs })?.end({ endMs: now });
    this.dueMs = now + plane.limits.firstByteMs;
    this.#target.started(this);
    this.#target.queueTimes.add(this.#queueMs);
    this.#request.answer.onAbandoned(undefined);
    this.#record = this.#request.record.engineStarted(this.#queueMs);
    plane.spool.start(this.#record.started());
    const { spec, prefix } = this.#target;
    const tenant = plane.tenantOf(ticket.account);
    const headers = ["content-type", contentType, "x-stoker-request-id", this.#engineId()];
    for (const [name, value] of Object.entries(authorizationFor(spec))) headers.push(name, value);
    headers.push(...tenantHeaders(spec, tenant));
    if (this.#span) headers.push(...traceHeaders(this.#span.context));
    const audioMs = audioBoundMs(ticket.units);
    if (audioMs !== undefined) headers.push(audioBoundHeader, String(audioMs));
    this.#engine.start(this.#pool, prefix + path, headers, saltedBody(spec, path, tenant, body));
  }

  refused(why: "busy" | "draining"): void {
    if (why === "busy") this.#target.turnedAway += 1;
    const message = why === "busy" ? "the model is at its capacity; try again later" : "the instance is shutting down";
    refuse(this.#request.answer, why, message, why === "busy" ? this.#gate.retryAfterSeconds() : 1);
    this.#done(why);
  }

  // Called by the deadlines and by a shutdown.

  due(): void {
    if (this.#phase === "waiting") this.#gate.expire();
    else if (this.#phase === "settling") this.#notRecorded();
    else if (this.#phase === "engine" && !this.#stream?.isStalled)
      this.#cut("engine_timeout", "the model server stopped answering");
    else {
      // The client does not read, or the engine does not close.
      this.#isCut = true;
      this.#engine.abort("not closed in time");
      this.#request.answer.cut();
    }
  }

  cut(): void {
    if (this.#phase === "engine") this.#cut("drained", "the instance is shutting down");
  }

  // Called by the stream towards the client.

  pause(): void {
    this.dueMs = this.#plane.clock() + this.#plane.limits.stalledClientMs;
    this.#engine.pause();
  }

  resume(): void {
    if (this.#phase === "engine") this.dueMs = this.#plane.clock() + this.#plane.limits.gapMs;
    this.#engine.resume();
  }

  // Called by the engine call.

  streaming(): UsageFrames {
    const stream = new StreamAnswer(this.#request.answer, this);
    this.#stream = stream;
    const { ticket, path } = this.#request;
    const format = formatOf(path);
    const Frames = format ? framesOf[format] : UsageFrames;
    this.#frames = new Frames(ticket, this.#price, (bytes) => stream.write(bytes));
    return this.#frames;
  }

  heard(frames: number): void {
    const now = this.#plane.clock();
    if (this.#firstByteMs === 0) {
      this.#firstByteMs = now - this.#request.arrivedMs;
      if (this.#stream) this.#target.firstTokenTimes.add(this.#firstByteMs);
    }
    if (!this.#stream?.isStalled) this.dueMs = now + this.#plane.limits.gapMs;
    if (frames > 0) this.#target.rate.add(frames);
  }

  streamed(frames: UsageFrames): void {
    const stream = this.#stream as StreamAnswer;
    const own = frames.isCutShort ? undefined : frames.figures;
    if (own) this.#target.rate.add(Math.max(0, own.output - frames.contentFrames));
    stream.flush();
    const endReason = frames.isError ? "engine_error" : "stop";
    const source = frames.hasInvalidUsage ? "engine_usage_rejected" : own ? "engine" : "counted";
    // An answer that failed before its first output is not billed, nor is one without countable output.
    const counted = frames.contentFrames > 0 ? this.#counted() : noFigures;
    const figures = frames.isError && frames.contentFrames === 0 ? noFigures : (own ?? counted);
    this.#settle({ figures, source, endReason, httpStatus: 200 }, (usage) =>
      // After an error frame of the engine's own the stream closes without [DONE].
      stream.end(frames.isError ? (frames.remains() ?? "") : frames.tail(counted), usage),
    );
  }

  passing(contentType: string): PassedBytes {
    const stream = new StreamAnswer(this.#request.answer, this);
    this.#request.answer.begin(contentType);
    this.#stream = stream;
    this.#passing = new PassedBytes(contentType, (bytes) => stream.write(bytes));
    return this.#passing;
  }

  passed(bytes: PassedBytes, reported: ReportedUnits): void {
    const stream = this.#stream as StreamAnswer;
    const { ticket } = this.#request;
    const { units } = ticket;
    if (bytes.isEmpty || !units) {
      this.broke("the model server sent an answer without content");
      return;
    }
    if (bytes.hasFailed && reported === undefined) {
      stream.flush();
      this.#settle({ figures: noFigures, source: "counted", endReason: "engine_error", httpStatus: 200 }, (usage) =>
        stream.end(bytes.tail(), usage),
      );
      return;
    }
    // The output is already delivered: replace impossible figures by the units that the gateway counted.
    const settled =
      unitFigures(reported, { ...ticket, units }) ??
      ({ figures: { ...noFigures, units: units.asked }, source: "engine_usage_rejected" } as const);
    stream.flush();
    this.#settle({ ...settled, endReason: "stop", httpStatus: 200 }, (usage) => stream.end(bytes.tail(), usage));
  }

  answered(status: number, contentType: string, body: Buffer, reported: ReportedUnits, retryAfter?: string): void {
    const { ticket, answer: to, path } = this.#request;
    const send = (bytes: Buffer) => (usage: string) => {
      const headers = ["content-type", contentType, usageHeader, usage];
      to.whole(status, retryAfter === undefined ? headers : [...headers, "retry-after", retryAfter], bytes);
    };
    if (status >= 300) {
      const endReason = status >= 500 ? "engine_error" : "refused";
      // Some servers repeat a wrong key: logs and customers must not see it.
      const safe = this.#target.spec.secret?.hideIn(body) ?? body;
      this.#settle({ figures: noFigures, source: "counted", endReason, httpStatus: status }, send(safe));
      return;
    }
    const format = formatOf(path);
    const read = format ? chatAnswer(format, body, ticket.maxTokens) : body;
    if (!read || !isAnswer(format ? chatPath : path, status, contentType, read, ticket.units?.asked.items)) {
      this.broke("the model server sent a reply that is not an answer");
      return;
    }
    if (this.#span?.context.isSampled) this.#whole = read;
    const { units } = ticket;
    const answer = units
      ? unitAnswer(read, contentType, reported, { ...ticket, units }, this.#price)
      : wholeAnswer(read, this.#price, ticket);
    if (!answer) {
      this.broke("the model server sent usage that the request does not allow");
      return;
    }
    this.#target.rate.add(answer.figures.output);
    this.#settle(
      { figures: answer.figures, source: answer.source, endReason: "stop", httpStatus: status },
      send(answer.body),
    );
  }

  broke(message: string, cause?: Error): void {
    this.#plane.log.warn({ err: cause, requestId: this.#request.ticket.requestId }, message);
    if (this.#engine.wasSent) this.#cut("engine_error", message);
    // No byte reached the engine: the gateway may retry on another instance.
    else
      this.#settle(this.#settled, () =>
        refuse(this.#request.answer, "not_ready", "the model server is unavailable", 1),
      );
  }

  failed(error: unknown): void {
    const { log } = this.#plane;
    const { requestId } = this.#request.ticket;
    log.error({ err: error, requestId }, "could not process a reply");
    if (this.#phase === "ended") return;
    const isFirst = !this.#hasFailed;
    this.#hasFailed = true;
    if (isFirst && !this.#isRecorded) {
      try {
        this.#cut("engine_error", "the reply of the model server could not be processed");
        return;
      } catch (again) {
        log.error({ err: again, requestId }, "could not record a failed request");
      }
    }
    this.#engine.abort("its reply could not be processed");
    this.#request.answer.cut();
    this.#done("engine_error");
  }

  closed(): void {
    this.#leaveGate();
    this.#forget();
  }

  /** Ends a request before its engine does. */
  #cut(reason: CutReason, message: string): void {
    const { output } = this.#counted();
    if (this.#engine.wasSent && reason !== "drained") this.#target.unanswered(this);
    this.#phase = "settling";
    this.#isCut = true;
    this.dueMs = this.#plane.clock() + this.#plane.limits.recordMs;
    this.#stream?.flush();
    this.#engine.abort(message);
    const settle = (said: EngineFigures | undefined) => {
      const allowed = said && allowedFigures(said, this.#request.ticket);
      const own = (allowed === invalidUsage ? undefined : allowed) ?? this.#frames?.figures;
      // A client that left after the engine had the request pays for its prompt; else no output, no bill.
      const isBilled = output > 0 || (reason === "client_gone" && this.#engine.wasSent);
      const figures = isBilled ? (own ?? this.#passedFigures(reason) ?? this.#counted()) : noFigures;
      const source =
        allowed === invalidUsage ? "engine_usage_rejected" : own ? "engine" : output > 0 ? "counted" : "estimated";
      const httpStatus = this.#request.answer.hasStarted ? 200 : cutStatus[reason];
      this.#settle({ figures, source, endReason: reason, httpStatus }, (usage) =>
        this.#sendCut(reason, message, usage),
      );
    };
    if (reason === "client_gone" || reason === "drained") void this.#engineFigures(reason).then(settle);
    else settle(undefined);
  }

  /** Figures of a request that was ended before its engine ended it, as the engine counts them. */
  async #engineFigures(reason: CutReason): Promise<EngineFigures | undefined> {
    const { spec, prefix } = this.#target;
    const headers = authorizationFor(spec);
    if (!spec.countsPrompts) return await askEngineUsage(this.#pool, this.#engineId(), headers);
    // It counts in every event; a request that had none yet is counted by its body, if its client pays for the prompt.
    const { units } = this.#request.ticket;
    if (reason !== "client_gone" || this.#frames?.figures || units || !this.#engine.wasSent) return undefined;
    const input = await this.#target.prompts.count(this.#pool, `${prefix}/tokenize`, headers, this.body);
    return input === undefined ? undefined : { ...this.#counted(), input };
  }

  /** A client that disconnects during audio pays for all of it if the engine cannot report its progress. */
  #passedFigures(reason: CutReason): EngineFigures | undefined {
    const { units } = this.#request.ticket;
    if (!units) return undefined;
    const isPaid = reason === "client_gone" && this.#passing?.hasPassed && !this.#passing.hasFailed;
    return isPaid ? { ...noFigures, units: units.asked } : noFigures;
  }

  #sendCut(reason: CutReason, message: string, usage: string | undefined): void {
    const { answer } = this.#request;
    const code = usage === undefined ? "usage_not_recorded" : reason;
    if (this.#passing && answer.hasStarted) {
      // Raw bytes cannot carry an error: cut the connection.
      answer.cut();
      return;
    }
    if (this.#stream && answer.hasStarted) {
      const remains = this.#frames?.remains()?.toString() ?? "";
      this.#stream.end(`${remains}data: ${errorBody(message, "server_error", code)}\n\n`, usage);
      return;
    }
    sendError(answer, cutStatus[reason], message, code, usage);
  }

  #settle(settled: Settled, deliver: (usage: string) => void): void {
    const plane = this.#plane;
    const now = plane.clock();
    if (settled.endReason === "stop") this.#target.stopping.answered(this);
    this.#phase = "settling";
    this.#settled = settled;
    this.dueMs = now + plane.limits.recordMs;
    const record = (this.#record as RecordText).ended({
      ...settled,
      endedAtMs: plane.controlTimeMs(),
      firstByteMs: this.#firstByteMs,
      totalMs: now - this.#request.arrivedMs,
    });
    plane.spool
      .end(record)
      .then(
        () => {
          this.#isRecorded = true;
          if (this.#phase === "ended") return;
          plane.fault("after_record");
          const { figures, source, endReason } = settled;
          deliver(encodeUsage({ ...figures, source, endReason }));
          this.#done(outcomeOf[endReason]);
        },
        () => this.#notRecorded(),
      )
      .catch((error: unknown) => this.failed(error));
  }

  /** The spool keeps the record and writes it when it can; without it the gateway gets no figures and no [DONE]. */
  #notRecorded(): void {
    if (this.#phase !== "settling") return;
    this.#sendCut("drained", "the usage of this request could not be recorded", undefined);
    this.#done("not_recorded");
  }

  #clientClosed(): void {
    if (this.#phase === "waiting") {
      this.#gate.leave(this);
      this.#done("client_gone_waiting");
    } else if (this.#phase === "engine") this.#cut("client_gone", "the client disconnected");
    this.#forget();
  }

  #counted(): EngineFigures {
    const output = Math.min(this.#frames?.contentFrames ?? 0, maxOutput(this.#request.ticket));
    return { ...noFigures, input: this.#inputEstimate(), output };
  }

  #inputEstimate(): number {
    return this.#request.ticket.inputTokensEstimate;
  }

  #engineId(): string {
    return `${this.#request.ticket.requestId}.${this.#request.ticket.attempt}`;
  }

  /** Releases the permits when the engine has closed; after a cut only once its usage is known: it may still be stopping. */
  #leaveGate(): void {
    if (!this.#engine.isClosed || (this.#isCut && this.#phase !== "ended")) return;
    const { input, output, units } = this.#settled.figures;
    this.#gate.release(this, input + output + unitWeight(units));
  }

  #done(outcome: Outcome): void {
    if (this.#phase === "ended") return;
    this.#phase = "ended";
    const { answer, ticket, body, arrivedMs } = this.#request;
    const { figures, source, endReason } = this.#settled;
    const plane = this.#plane;
    const now = plane.clock();
    this.dueMs = now + (this.#record && !this.#engine.isClosed ? closingMs : plane.limits.stalledClientMs);
    plane.heldBodyBytes -= body.length;
    this.#leaveGate();
    this.#target.ended(this, figures.output / ticket.permits);
    this.#forget();
    plane.metrics?.count(outcome);
    if (this.#span?.context.isSampled) this.#endSpan(this.#span, now, outcome);
    if (this.#record) plane.metrics?.queued(this.#queueMs / 1000);
    if (this.#frames) plane.metrics?.frames(this.#frames.contentFrames);
    // One line per request, never its body. The fields are the same for every outcome, so that chaos tests can sum them.
    plane.log.info(
      {
        requestId: ticket.requestId,
        attempt: ticket.attempt,
        trace_id: this.#span?.context.traceId,
        instance: ticket.instanceId,
        account: ticket.account,
        model: ticket.model,
        // Undefined, and not in the line, for a chat or another task.
        format: formatOf(this.#request.path),
        outcome,
        status: outcome.startsWith("client_gone") ? 499 : answer.status,
        queueMs: this.#record ? this.#queueMs : Math.round(now - arrivedMs),
        firstByteMs: Math.round(this.#firstByteMs),
        totalMs: Math.round(now - arrivedMs),
        // Undefined, and not in the line, if the request never reached the engine.
        source: this.#record && source,
        endReason: this.#record && endReason,
        inputTokens: figures.input,
        cachedInputTokens: figures.cachedInput,
        outputTokens: figures.output,
        ...figures.units,
      },
      "request",
    );
  }

  /** Prefill of a stream lasts until its first byte, decode until its last. */
  #endSpan(span: Span, nowMs: number, outcome: Outcome): void {
    const { ticket, arrivedMs } = this.#request;
    const { figures, endReason } = this.#settled;
    const error = outcome === "ok" ? undefined : outcome;
    if (this.#sentMs > 0) {
      // The first byte of a reply in one piece comes at its end.
      const firstMs = this.#frames && this.#firstByteMs > 0 ? arrivedMs + this.#firstByteMs : undefined;
      const sent = { startMs: this.#sentMs };
      if (firstMs === undefined) span.child("generate", sent)?.end({ endMs: nowMs, error });
      else {
        span.child("prefill", sent)?.end({ endMs: firstMs });
        span.child("decode", { startMs: firstMs })?.end({ endMs: nowMs, error });
      }
    } else span.child("queue", { startMs: arrivedMs })?.end({ endMs: nowMs, error });
    const reasons = finishReasons(this.#frames?.finish ?? this.#whole);
    this.#whole = undefined;
    span.set({
      "gen_ai.request.model": ticket.model,
      "gen_ai.usage.input_tokens": this.#record && figures.input,
      "gen_ai.usage.output_tokens": this.#record && figures.output,
      "gen_ai.response.finish_reasons": reasons.length > 0 ? reasons : undefined,
      "stoker.request_id": ticket.requestId,
      "stoker.attempt": ticket.attempt,
      "stoker.instance": ticket.instanceId,
      "stoker.outcome": outcome,
      "stoker.end_reason": this.#record && endReason,
    });
    span.end({ endMs: nowMs, error });
  }

  /** Removes the request from the deadlines once both sides are closed. */
  #forget(): void {
    if (this.#phase !== "ended" || !this.#request.answer.isClosed) return;
    if (this.#engine.isClosed || !this.#record) this.#plane.deadlines.delete(this);
  }
}

/** Quotes within a text are escaped: only the member itself matches. */
const finishReasons = (json: Buffer | undefined): readonly string[] =>
  json
    ? [...json.toString().matchAll(/"finish_reason": ?"([a-z_]{1,40})"/g)].slice(0, 16).map(([, reason = ""]) => reason)
    : [];
