// One request from admission to its end: waiting at the gate, bytes through the engine, usage on record, last bytes.
// Invariants: the record is durable before the last bytes leave; the gate's permits are held until the engine is done
// with the request; every state has a deadline; every path ends in #done exactly once.
import type { Pool } from "undici";
import type { TokenRates, UnitCounts } from "../../proto/money.ts";
import type { Ticket } from "../../proto/ticket.ts";
import { type EndReason, encodeUsage, type UsageSource, usageHeader } from "../../proto/usage.ts";
import type { Answer } from "./answer.ts";
import type { Deadline } from "./deadlines.ts";
import { EngineCall, type EngineListener } from "./engine-call.ts";
import { askEngineUsage } from "./engine-usage.ts";
import { type EngineFigures, noFigures } from "./find-usage.ts";
import type { Waiter } from "./gate.ts";
import type { Outcome } from "./ingress-metrics.ts";
import { logRequest } from "./log-request.ts";
import { PassedBytes } from "./passed-bytes.ts";
import type { Plane } from "./plane.ts";
import { RecordText } from "./record-text.ts";
import { errorBody, refuse, sendError } from "./refuse.ts";
import { type Source, StreamAnswer } from "./stream-answer.ts";
import type { Cuttable, Target } from "./target.ts";
import { ratesOf, unitWeight } from "./ticket-units.ts";
import { unitAnswer, unitFigures } from "./unit-answer.ts";
import { UsageFrames } from "./usage-frames.ts";
import { wholeAnswer } from "./whole-answer.ts";

type Phase = "waiting" | "engine" | "settling" | "ended";
type CutReason = "client_gone" | "engine_error" | "engine_timeout" | "drained";

interface Settled {
  readonly figures: EngineFigures;
  readonly source: UsageSource;
  readonly endReason: EndReason;
}

/** How long an engine may take to close its answer after its last bytes. */
const closingMs = 5_000;

export interface ForwardRequest {
  readonly ticket: Ticket;
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
  readonly permits: number;
  readonly isHasty: boolean;
  readonly cost: number;
  readonly promptTokens: number;
  dueMs: number;
  slot = -1;

  readonly #plane: Plane;
  readonly #target: Target;
  readonly #pool: Pool;
  readonly #request: ForwardRequest;
  readonly #rates: TokenRates;
  readonly #engine: EngineCall;
  #phase: Phase = "waiting";
  #isCut = false;
  #stream: StreamAnswer | undefined;
  #frames: UsageFrames | undefined;
  #passing: PassedBytes | undefined;
  #queueMs = 0;
  #firstByteMs = 0;
  #record: RecordText | undefined;
  #settled: Settled = { figures: noFigures, source: "estimated", endReason: "refused" };

  constructor(plane: Plane, target: Target, request: ForwardRequest) {
    const { ticket } = request;
    this.#plane = plane;
    this.#target = target;
    this.#pool = target.pool;
    this.#request = request;
    this.#rates = ratesOf(ticket);
    this.#engine = new EngineCall(this, plane.limits.maxAnswerBytes, ticket.units !== undefined);
    this.account = ticket.account;
    this.permits = ticket.permits;
    this.isHasty = ticket.failFast === true;
    this.promptTokens = this.#inputEstimate();
    const tokens = this.promptTokens + ticket.permits * Math.min(ticket.maxTokens, target.typicalOutput);
    this.cost = tokens + unitWeight(ticket.units?.asked);
    this.dueMs = plane.clock() + plane.limits.maxWaitMs;
  }

  enter(): void {
    this.#request.answer.onClose(() => this.#clientClosed());
    this.#plane.deadlines.add(this);
    this.#target.gate.enter(this);
  }

  // Called by the gate.

  admitted(): void {
    const { ticket, path, contentType, body, arrivedMs } = this.#request;
    const plane = this.#plane;
    const now = plane.clock();
    this.#phase = "engine";
    this.#queueMs = Math.round(now - arrivedMs);
    this.dueMs = now + plane.limits.firstByteMs;
    this.#target.started(this);
    this.#record = new RecordText(ticket, plane.nodeEpoch(), plane.controlTimeMs(), this.#queueMs);
    plane.spool.start(this.#record.started());
    const headers = ["content-type", contentType, "x-stoker-request-id", this.#engineId()];
    this.#engine.start(this.#pool, this.#target.prefix + path, headers, body);
  }

  refused(why: "busy" | "draining"): void {
    if (why === "busy") this.#target.turnedAway += 1;
    const message = why === "busy" ? "the model is at its capacity; try again later" : "the instance is shutting down";
    refuse(this.#request.answer, why, message, why === "busy" ? this.#target.gate.retryAfterSeconds() : 1);
    this.#done(why);
  }

  // Called by the deadlines and by a shutdown.

  expired(): void {
    if (this.#phase === "waiting") this.#target.gate.expire();
    else if (this.#phase === "settling") this.#notRecorded();
    else if (this.#phase === "engine" && !this.#stream?.isStalled)
      this.#cut("engine_timeout", "the model server stopped answering");
    else {
      // A client that does not read, or an engine that does not close.
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
    this.#frames = new UsageFrames(this.#request.ticket.usage, this.#rates, (bytes) => stream.write(bytes));
    return this.#frames;
  }

  heard(frames: number): void {
    const now = this.#plane.clock();
    if (this.#firstByteMs === 0) this.#firstByteMs = now - this.#request.arrivedMs;
    if (!this.#stream?.isStalled) this.dueMs = now + this.#plane.limits.gapMs;
    if (frames > 0) this.#target.rate.add(frames);
  }

  streamed(frames: UsageFrames): void {
    const stream = this.#stream as StreamAnswer;
    const own = frames.figures;
    const counted = this.#counted();
    if (own) this.#target.rate.add(Math.max(0, own.output - frames.contentFrames));
    stream.flush();
    const endReason = frames.isError ? "engine_error" : "stop";
    this.#settle({ figures: own ?? counted, source: own ? "engine" : "counted", endReason }, (usage) =>
      // After an error frame of the engine's own the stream closes without [DONE].
      stream.end(frames.isError ? (frames.remains() ?? "") : frames.tail(counted), usage),
    );
  }

  passing(contentType: string): PassedBytes {
    const stream = new StreamAnswer(this.#request.answer, this);
    this.#request.answer.begin(contentType);
    this.#stream = stream;
    this.#passing = new PassedBytes((bytes) => stream.write(bytes));
    return this.#passing;
  }

  passed(bytes: PassedBytes, units: UnitCounts | undefined): void {
    const stream = this.#stream as StreamAnswer;
    const { asked } = this.#request.ticket.units ?? {};
    const settled = asked ? unitFigures(units, asked) : { figures: noFigures, source: "counted" as const };
    stream.flush();
    this.#settle({ ...settled, endReason: "stop" }, (usage) => stream.end(bytes.tail(), usage));
  }

  answered(status: number, contentType: string, body: Buffer, units: UnitCounts | undefined): void {
    const { ticket, answer: to } = this.#request;
    const send = (bytes: Buffer) => (usage: string) =>
      to.whole(status, ["content-type", contentType, usageHeader, usage], bytes);
    if (status >= 300) {
      const endReason = status >= 500 ? "engine_error" : "refused";
      this.#settle({ figures: noFigures, source: "counted", endReason }, send(body));
      return;
    }
    const bound = { input: this.#inputEstimate(), output: ticket.permits * ticket.maxTokens };
    const { asked } = ticket.units ?? {};
    const answer = asked
      ? unitAnswer(body, contentType, units, asked, this.#rates)
      : wholeAnswer(body, this.#rates, bound);
    this.#target.rate.add(answer.figures.output);
    this.#settle({ figures: answer.figures, source: answer.source, endReason: "stop" }, send(answer.body));
  }

  broke(message: string, cause?: Error): void {
    this.#plane.log.warn({ err: cause, requestId: this.#request.ticket.requestId }, message);
    if (this.#engine.wasSent) this.#cut("engine_error", message);
    // No byte of it reached the engine: the gateway may go elsewhere.
    else this.#settle(this.#settled, () => refuse(this.#request.answer, "not_ready", "the model server is away", 1));
  }

  closed(): void {
    this.#leaveGate();
    this.#forget();
  }

  /** Ends a request that did not end by itself. */
  #cut(reason: CutReason, message: string): void {
    const { output } = this.#counted();
    this.#phase = "settling";
    this.#isCut = true;
    this.dueMs = this.#plane.clock() + this.#plane.limits.recordMs;
    this.#stream?.flush();
    this.#engine.abort(message);
    const settle = (said: EngineFigures | undefined) => {
      const own = said ?? this.#frames?.figures ?? this.#passedFigures(reason);
      // A client that left after the engine had the request pays for its prompt; else no output, no bill.
      const isBilled = output > 0 || (reason === "client_gone" && this.#engine.wasSent);
      const figures = own ?? (isBilled ? this.#counted() : noFigures);
      const source = said || this.#frames?.figures ? "engine" : output > 0 ? "counted" : "estimated";
      this.#settle({ figures, source, endReason: reason }, (usage) => this.#tell(reason, message, usage));
    };
    if (reason === "client_gone" || reason === "drained")
      void askEngineUsage(this.#pool, this.#engineId()).then(settle);
    else settle(undefined);
  }

  /** A client that left in the middle of audio pays for it, where the engine cannot say how far it was. */
  #passedFigures(reason: CutReason): EngineFigures | undefined {
    const { units } = this.#request.ticket;
    if (!units) return undefined;
    return reason === "client_gone" && this.#passing?.hasPassed ? { ...noFigures, units: units.asked } : noFigures;
  }

  /** The client of a request that was cut hears why, if it is still there. */
  #tell(reason: CutReason, message: string, usage: string | undefined): void {
    const { answer } = this.#request;
    const code = usage === undefined ? "usage_not_recorded" : reason;
    if (this.#passing && answer.hasStarted) {
      // Nothing in such an answer can say that it broke, but that it breaks off.
      answer.cut();
      return;
    }
    if (this.#stream && answer.hasStarted) {
      const remains = this.#frames?.remains()?.toString() ?? "";
      this.#stream.end(`${remains}data: ${errorBody(message, "server_error", code)}\n\n`, usage);
      return;
    }
    const status = reason === "engine_timeout" ? 504 : reason === "engine_error" ? 502 : 503;
    sendError(answer, status, message, code, usage);
  }

  #settle(settled: Settled, deliver: (usage: string) => void): void {
    const plane = this.#plane;
    const now = plane.clock();
    this.#phase = "settling";
    this.#settled = settled;
    this.dueMs = now + plane.limits.recordMs;
    const record = (this.#record as RecordText).ended({
      ...settled,
      endedAtMs: plane.controlTimeMs(),
      firstByteMs: this.#firstByteMs,
      totalMs: now - this.#request.arrivedMs,
    });
    plane.spool.end(record).then(
      () => {
        if (this.#phase === "ended") return;
        plane.fault("after_record");
        const { figures, source, endReason } = settled;
        deliver(encodeUsage({ ...figures, source, endReason }));
        this.#done(outcomeOf[endReason]);
      },
      () => this.#notRecorded(),
    );
  }

  /** The spool keeps the record and writes it when it can; without it the gateway gets no figures and no [DONE]. */
  #notRecorded(): void {
    if (this.#phase !== "settling") return;
    this.#tell("drained", "the usage of this request could not be recorded", undefined);
    this.#done("not_recorded");
  }

  #clientClosed(): void {
    if (this.#phase === "waiting") {
      this.#target.gate.leave(this);
      this.#done("client_gone_waiting");
    } else if (this.#phase === "engine") this.#cut("client_gone", "the client went away");
    this.#forget();
  }

  #counted(): EngineFigures {
    return { ...noFigures, input: this.#inputEstimate(), output: this.#frames?.contentFrames ?? 0 };
  }

  #inputEstimate(): number {
    return this.#request.ticket.inputTokensEstimate;
  }

  #engineId(): string {
    return `${this.#request.ticket.requestId}.${this.#request.ticket.attempt}`;
  }

  /** The permits go when the engine has closed; after a cut only once it has said what it did: it may still be stopping. */
  #leaveGate(): void {
    if (!this.#engine.isClosed || (this.#isCut && this.#phase !== "ended")) return;
    const { input, output, units } = this.#settled.figures;
    this.#target.gate.release(this, input + output + unitWeight(units));
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
    if (this.#record) plane.metrics?.queued(this.#queueMs / 1000);
    if (this.#frames) plane.metrics?.frames(this.#frames.contentFrames);
    logRequest(plane.log, ticket, {
      outcome,
      status: outcome.startsWith("client_gone") ? 499 : answer.status,
      queueMs: this.#record ? this.#queueMs : Math.round(now - arrivedMs),
      firstByteMs: Math.round(this.#firstByteMs),
      totalMs: Math.round(now - arrivedMs),
      figures,
      source: this.#record && source,
      endReason: this.#record && endReason,
    });
  }

  /** Off the deadlines once both sides are closed. */
  #forget(): void {
    if (this.#phase !== "ended" || !this.#request.answer.isClosed) return;
    if (this.#engine.isClosed || !this.#record) this.#plane.deadlines.delete(this);
  }
}

const outcomeOf: Readonly<Record<EndReason, Outcome>> = {
  stop: "ok",
  client_gone: "client_gone",
  engine_error: "engine_error",
  engine_timeout: "engine_timeout",
  refused: "engine_refused",
  drained: "drained",
  lost: "engine_error",
};
