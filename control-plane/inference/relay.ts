// The way of an admitted request to an instance and back, with another instance where that is safe: before the first data
// byte, never after it.
import type { ReplicaId } from "../../proto/ids.ts";
import { nano, type TokenRates, type UnitRates } from "../../proto/money.ts";
import { signTicket, type TicketUnits } from "../../proto/ticket.ts";
import type { UsageFigures } from "../../proto/usage.ts";
import type { DeliveredCounts } from "../billing/delivered.ts";
import type { Route, Routes } from "../fleet/routes.ts";
import type { ServiceError } from "../service-error.ts";
import type { Admission } from "./admit.ts";
import { affinityOf } from "./affinity.ts";
import type { AnswerSink } from "./answer-sink.ts";
import { Attempt, type AttemptEnd, type AttemptLimits } from "./attempt.ts";
import type { Completion, Trace } from "./completion.ts";
import type { Deadlines } from "./deadlines.ts";
import { engineError } from "./engine-error.ts";
import { EngineOverloaded, InstancesUnreachable, ModelNotReady, UpstreamBroken, UpstreamTimeout } from "./errors.ts";
import { forwardBody } from "./forward-body.ts";
import { pickRoute } from "./route.ts";
import type { SpineMetrics } from "./spine-metrics.ts";
import type { TaskBody } from "./task.ts";
import type { Upstreams } from "./upstreams.ts";

export interface RelayDeps {
  readonly routes: Routes;
  readonly upstreams: Upstreams;
  readonly delivered: DeliveredCounts;
  readonly deadlines: Deadlines;
  readonly metrics: SpineMetrics;
  readonly limits: AttemptLimits;
  readonly replicaId: string;
  /** Unix ms. */
  readonly unixMs: () => number;
}

export interface RelayEnd {
  readonly kind: "answered" | "client-gone" | "failed";
  /** The last attempt that may have run; 0: none did. */
  readonly ranAttempt: number;
  /** The agent's own figures of that attempt. */
  readonly usage: UsageFigures | undefined;
  /** Without figures: data frames of that attempt that went to the client. */
  readonly frames: number;
  /** With `failed`: why. */
  readonly error: ServiceError | undefined;
}

const mostAttempts = 3;
const ticketMs = 60_000;

/** Resolves when the request is over; never rejects for what an instance or the client does. */
export async function relay(
  deps: RelayDeps,
  admission: Admission,
  completion: Completion,
  sink: AnswerSink,
  trace: Trace,
): Promise<RelayEnd> {
  const { model } = admission;
  const body = completion.task
    ? completion.task.body(model.servedName)
    : { contentType: "application/json", bytes: forwardBody(completion, admission) };
  const tried: Route[] = [];
  // Of a request that waited for an instance after it was turned away: no attempt number is used twice.
  const before = trace.attempts;
  let ranAttempt = 0;
  let last: AttemptEnd | undefined;
  let busySeconds: number | undefined;

  while (tried.length < mostAttempts) {
    if (sink.isGone) return { kind: "client-gone", ranAttempt, usage: undefined, frames: 0, error: undefined };
    const ready = deps.routes.ready(model.deployId, model.adapter?.id);
    const route = pickRoute(ready, tried, ready.length > 1 ? affinityOf(completion, admission.account) : 0);
    if (!route) break;
    if (completion.failFast === true && route.inFlight + completion.n > route.maxBatchSize) {
      busySeconds ??= 1;
      break;
    }
    tried.push(route);
    if (tried.length > 1) deps.metrics.retries.inc();
    trace.attempts = before + tried.length;
    trace.instance = route.instanceId;
    const end = await attempt(deps, route, admission, completion, body, sink, trace);
    last = end.end;
    switch (last.kind) {
      case "answered":
        deps.routes.sawAnswer(route.hostId);
        return { kind: "answered", ranAttempt: trace.attempts, usage: last.usage, frames: 0, error: undefined };
      case "engine-error":
        deps.routes.sawAnswer(route.hostId);
        deps.metrics.upstreamErrors.inc({ reason: last.status >= 500 ? "engine_error" : "engine_refusal" });
        return {
          kind: "failed",
          ranAttempt: trace.attempts,
          usage: last.usage,
          frames: 0,
          error: engineError(last, completion.kind, model),
        };
      case "client-gone":
        deps.metrics.aborts.inc({ by: "client" });
        if (last.wasSent) ranAttempt = trace.attempts;
        return { kind: "client-gone", ranAttempt, usage: undefined, frames: last.frames, error: undefined };
      case "dropped":
        deps.metrics.aborts.inc({ by: "gateway" });
        reportDelivered(deps, route, admission, trace, 0);
        return broken(trace.attempts, 0, last.why);
      case "refused":
        deps.routes.sawAnswer(route.hostId);
        deps.metrics.upstreamErrors.inc({ reason: last.refusal });
        if (last.refusal === "busy") busySeconds = Math.min(busySeconds ?? 60, last.retryAfterSeconds ?? 1);
        break;
      case "unreachable":
        deps.metrics.upstreamErrors.inc({ reason: "unreachable" });
        deps.routes.sawFailure(route.hostId, route.instanceId);
        break;
      case "broken":
      case "timeout":
        ranAttempt = trace.attempts;
        deps.metrics.upstreamErrors.inc({ reason: last.kind });
        reportDelivered(deps, route, admission, trace, last.frames);
        if (last.kind === "timeout") {
          return broken(ranAttempt, last.frames, new UpstreamTimeout({ cause: last.cause }));
        }
        deps.routes.sawFailure(route.hostId, route.instanceId);
        if (end.hasForwardedData) {
          deps.metrics.aborts.inc({ by: "upstream" });
          return broken(ranAttempt, last.frames, new UpstreamBroken({ cause: last.cause }));
        }
    }
  }
  return broken(ranAttempt, 0, noInstance(admission, last, busySeconds));
}

/** Of the attempt that runs: the most that it may cost. */
function reportDelivered(deps: RelayDeps, route: Route, admission: Admission, trace: Trace, frames: number): void {
  deps.delivered.report({
    requestId: trace.requestId,
    attempt: trace.attempts,
    account: admission.account,
    outputTokens: frames,
    leaseIds: admission.hold.leaseIds,
    hold: nano(admission.hold.amount),
    lost: { ...lostAttempt(deps.replicaId, route, admission, trace), brokeAtMs: deps.unixMs() },
  });
}

const lostAttempt = (replica: string, route: Route, admission: Admission, trace: Trace) => ({
  host: route.hostId,
  key: admission.key,
  replica: replica as ReplicaId,
  model: admission.model.name,
  deployId: admission.model.deployId,
  instanceId: route.instanceId,
  admittedAtMs: trace.admittedAtMs,
  inputTokens: admission.inputTokensEstimate,
  rates: admission.rates,
  priceVersion: BigInt(admission.model.priceVersion),
  discountId: admission.discountId ?? null,
});

const broken = (ranAttempt: number, frames: number, error: ServiceError): RelayEnd => ({
  kind: "failed",
  ranAttempt,
  usage: undefined,
  frames,
  error,
});

interface Tried {
  readonly end: AttemptEnd;
  readonly hasForwardedData: boolean;
}

function attempt(
  deps: RelayDeps,
  route: Route,
  admission: Admission,
  completion: Completion,
  body: TaskBody,
  sink: AnswerSink,
  trace: Trace,
): Promise<Tried> {
  return new Promise((resolve) => {
    const handler: Attempt = new Attempt({
      sink,
      trace,
      isStream: completion.stream,
      deadlines: deps.deadlines,
      limits: deps.limits,
      end: (end) => {
        route.inFlight -= completion.n;
        resolve({ end, hasForwardedData: handler.hasForwardedData });
      },
    });
    // As the agent's gate counts: a request with `n` takes n places.
    route.inFlight += completion.n;
    const path = `/i/${route.instanceId}${enginePathOf(completion)}`;
    const ticket = ticketFor(deps, route, admission, completion, trace);
    deps.upstreams.send(route, { path, ticket, body: body.bytes, contentType: body.contentType }, handler);
  });
}

function enginePathOf({ kind, task }: Completion): string {
  if (task) return task.enginePath;
  return kind === "chat" ? "/v1/chat/completions" : "/v1/completions";
}

/** Signed now that the instance is known, so that waiting does not use up its minute. */
function ticketFor(
  deps: RelayDeps,
  route: Route,
  { model, account, key, hold, rates, discountId, inputTokensBound, inputTokensEstimate, maxTokens, units }: Admission,
  completion: Completion,
  trace: Trace,
): string {
  return signTicket(
    {
      requestId: trace.requestId,
      attempt: trace.attempts,
      instanceId: route.instanceId,
      deployId: model.deployId,
      admittedAtMs: trace.admittedAtMs,
      expiresAtMs: Math.min(deps.unixMs() + ticketMs, hold.expiresAtMs),
      account,
      keyId: key,
      replicaId: deps.replicaId,
      model: model.name,
      leaseIds: hold.leaseIds,
      hold: hold.amount.toString(),
      permits: completion.n,
      inputTokensBound,
      inputTokensEstimate,
      maxTokens,
      stream: completion.stream,
      usage: completion.usage,
      rates: rateTexts(rates),
      priceVersion: model.priceVersion,
      ...(completion.failFast === true ? { failFast: true } : {}),
      ...(discountId === undefined ? {} : { discountId }),
      ...(units === undefined ? {} : { units: { asked: units, rates: unitRateTexts(rates.units) } }),
    },
    route.ticketKey,
  );
}

const texts = new WeakMap<TokenRates, readonly [string, string, string]>();

function rateTexts(rates: TokenRates): readonly [string, string, string] {
  let known = texts.get(rates);
  if (!known) {
    known = [rates.input.toString(), rates.cachedInput.toString(), rates.output.toString()];
    texts.set(rates, known);
  }
  return known;
}

function unitRateTexts(units: UnitRates | undefined): TicketUnits["rates"] {
  if (!units) return ["0", "0", "0", "0"];
  return [String(units.characters), String(units.audio), String(units.images), String(units.imageUnit)];
}

/** For one, its disk is full. */
const noRecords = "The model's host cannot record usage at the moment, so it takes no requests.";

function noInstance({ model }: Admission, last: AttemptEnd | undefined, busySeconds: number | undefined): ServiceError {
  // A busy instance can serve in a moment, whatever became of the others.
  if (busySeconds !== undefined) return new EngineOverloaded(busySeconds);
  switch (last?.kind) {
    case "broken":
      return new UpstreamBroken({ cause: last.cause });
    case "unreachable":
      return new InstancesUnreachable({ cause: last.cause });
    case "refused":
      if (last.refusal === "spool" || last.refusal === "ticket") {
        const cause = new Error(`the agent refused: ${last.refusal}`);
        return new InstancesUnreachable({ cause }, last.refusal === "spool" ? noRecords : undefined);
      }
      return new ModelNotReady(model.name, model.status, last.retryAfterSeconds ?? 2);
    default:
      return new ModelNotReady(model.name, model.status, 5);
  }
}
