// Sends an admitted request to an instance and its response to the client. Retries on another instance only before the first
// byte of data.

import { setTimeout as wait } from "node:timers/promises";
import { type FormatSkill, formatPaths, isMessagesApi } from "../../proto/api-formats.ts";
import type { Deadlines } from "../../proto/deadlines.ts";
import type { ReplicaId } from "../../proto/ids.ts";
import { nano, type TokenRates, type UnitRates } from "../../proto/money.ts";
import { oncePer } from "../../proto/once-per.ts";
import {
  clockToleranceMs,
  type SealKey,
  signTicket,
  type TicketProvider,
  type TicketUnits,
} from "../../proto/ticket.ts";
import type { TraceContext } from "../../proto/trace-context.ts";
import type { Span } from "../../proto/tracing.ts";
import { unreachable } from "../../proto/unreachable.ts";
import type { UsageFigures } from "../../proto/usage.ts";
import type { UsageTerms } from "../../proto/usage-bounds.ts";
import type { DeliveredCounts, LostAttempt } from "../billing/delivered.ts";
import type { Route, Routes } from "../fleet/routes.ts";
import type { ServiceError } from "../service-error.ts";
import type { Admission } from "./admit.ts";
import type { AnswerSink } from "./answer-sink.ts";
import { Attempt, type AttemptEnd, type AttemptLimits } from "./attempt.ts";
import type { Completion, NativeRequest, Trace } from "./completion.ts";
import { accountRefusal, engineError } from "./engine-error.ts";
import {
  EngineOverloaded,
  FieldUnsupported,
  InstancesUnreachable,
  ModelNotReady,
  requestStopsServer,
  upstreamBroken,
  upstreamTimeout,
} from "./errors.ts";
import { anthropicBody, forwardBody, nativeBody } from "./forward-body.ts";
import { needsStructured } from "./output-format.ts";
import type { RefusedRequests } from "./refused-requests.ts";
import type { Choice, RoutedPrompt, Router } from "./route.ts";
import { commonSkills, structuredRoutes } from "./route-skills.ts";
import type { SpineMetrics } from "./spine-metrics.ts";
import type { Outcome, TargetHealth } from "./target-health.ts";
import type { TaskBody } from "./task.ts";
import type { Upstreams } from "./upstreams.ts";

export interface RelayDeps {
  readonly routes: Routes;
  readonly router: Router;
  readonly upstreams: Upstreams;
  readonly delivered: DeliveredCounts;
  readonly deadlines: Deadlines;
  readonly metrics: SpineMetrics;
  readonly refused: RefusedRequests;
  readonly health: TargetHealth;
  readonly limits: AttemptLimits;
  readonly replicaId: string;
  /** Seals tickets: see proto/ticket.ts. */
  readonly sealKey: () => SealKey;
  /** Unix ms. */
  readonly unixMs: () => number;
}

export interface RelayEnd {
  readonly kind: "answered" | "client-gone" | "failed";
  /** Number of the last attempt that may have run; 0 if none did. */
  readonly ranAttempt: number;
  /** Usage of that attempt as the agent reports it. */
  readonly usage: UsageFigures | undefined;
  /** Data frames of that attempt sent to the client, when `usage` is undefined. */
  readonly frames: number;
  /** Reports the usage that the gateway saw, in case the agent's record never arrives. */
  readonly overdue?: () => void;
  /** Cause when `kind` is `failed`. */
  readonly error: ServiceError | undefined;
  /**
   * Another model may still serve it, because nothing of a reply was delivered. `refused`: the server refuses requests for now, this
   * one as any other. `broken`: it failed with this request.
   */
  readonly elsewhere?: "refused" | "broken" | undefined;
}

/** Statuses for a path that a server does not have. It reports no work for them. */
const hasNoPath: ReadonlySet<number> = new Set([404, 405, 501]);
/** Maximum body of a request in its own format: it is a second copy of the translated body. */
const maxNativeBytes = 1024 * 1024;
/** The agent reads at most 1 MiB of such a reply in one piece. */
const maxNativeTokens = 32_768;
const maxAttempts = 3;
const ticketMs = 60_000;

/** Resolves when the request has ended. Failures of an instance or the client never reject. */
export async function relay(
  deps: RelayDeps,
  admission: Admission,
  completion: Completion,
  sink: AnswerSink,
  trace: Trace,
): Promise<RelayEnd> {
  const { model, account } = admission;
  const unhealthy = model.isExternalServer ? deps.health.refusal(model, account) : undefined;
  if (unhealthy) return broken(0, 0, unhealthy);
  const allReady = () => deps.routes.ready(model.deployId, model.adapter?.id);
  // One instance without the skill must not take it from the requests that need it.
  const isForStructured = needsStructured(completion.fields["response_format"], model.engine, completion.kind);
  const ableRoutes = () => (isForStructured ? structuredRoutes(allReady()) : allReady());
  let body: SentBody;
  try {
    const able = ableRoutes();
    body = bodyFor(completion, admission, commonSkills(able.length > 0 ? able : allReady()));
  } catch (error) {
    if (!(error instanceof FieldUnsupported)) throw error;
    // Nothing is sent: a breaker that tries one request may try another.
    if (model.isExternalServer) deps.health.note(model, account, { kind: "unknown" });
    return broken(0, 0, error);
  }
  const { refused } = deps;
  const refusedSeconds = refused.secondsLeft(model.deployId, account, body.bytes);
  if (refusedSeconds !== undefined) return broken(0, 0, requestStopsServer(refusedSeconds));
  const tried: Route[] = [];
  let ranAttempt = 0;
  let hasBroken = false;
  let isNativeRefused = false;
  let last: AttemptEnd | undefined;
  let busySeconds: number | undefined;
  let keyWaits = 0;

  while (tried.length < maxAttempts) {
    if (sink.isGone) return { kind: "client-gone", ranAttempt, usage: undefined, frames: 0, error: undefined };
    const ready = ableRoutes();
    const routing = trace.span?.child("route");
    const choice = deps.router.pick(ready, tried, promptOf(deps.router, ready.length, admission, completion, body));
    if (routing) endRouting(routing, ready.length, choice);
    if (!choice) {
      if (!isOtherKey(last) || keyWaits === maxKeyWaits) break;
      keyWaits += 1;
      await wait(keyWaitMs);
      tried.length = 0;
      continue;
    }
    const { route } = choice;
    if (completion.failFast === true && route.inFlight + completion.n > route.maxBatchSize) {
      busySeconds ??= 1;
      break;
    }
    tried.push(route);
    if (tried.length > 1) deps.metrics.retries.inc();
    // Never reused, also when a request is relayed again after it waited for an instance.
    trace.attempts += 1;
    trace.instance = route.instanceId;
    const native = isNativeRefused ? undefined : nativeFor(completion, admission.maxTokens, route);
    const sent = native
      ? { path: formatPaths[native.format], ...jsonOf(nativeBody(native, completion, admission)) }
      : body;
    const end = await attempt(deps, choice, admission, completion, sent, sink, trace);
    last = end.end;
    // Another version of the server since its host asked it.
    if (native && last.kind === "engine-error" && hasNoPath.has(last.status) && last.usage) {
      isNativeRefused = true;
      tried.pop();
      continue;
    }
    if (model.isExternalServer) deps.health.note(model, account, outcomeOf(last));
    switch (last.kind) {
      case "answered":
        deps.routes.sawAnswer(route.hostId);
        refused.answered(model.deployId, account, body.bytes);
        if (last.usage?.source === "engine") deps.router.learn(choice, last.usage.cachedInput);
        // The agent may never write its record: this count then bills what the client received.
        if (!last.usage && last.frames !== undefined) reportDelivered(deps, route, admission, trace, last.frames);
        return {
          kind: "answered",
          ranAttempt: trace.attempts,
          usage: last.usage,
          frames: last.frames ?? 0,
          error: undefined,
          ...overdueOf(deps, route, admission, trace, last.usage),
        };
      case "engine-error":
        deps.routes.sawAnswer(route.hostId);
        deps.metrics.upstreamErrors.inc({ reason: last.status >= 500 ? "engine_error" : "engine_refusal" });
        if (!last.usage) reportDelivered(deps, route, admission, trace, 0);
        return {
          kind: "failed",
          ranAttempt: trace.attempts,
          usage: last.usage,
          frames: 0,
          error: engineError(last, completion.kind, model),
          elsewhere:
            model.isExternalServer && accountRefusal(last) !== undefined ? "refused" : elsewhereOf(last.status),
        };
      case "client-gone":
        deps.metrics.aborts.inc({ by: "client" });
        if (last.wasSent) ranAttempt = trace.attempts;
        return {
          kind: "client-gone",
          ranAttempt,
          usage: undefined,
          frames: last.frames,
          error: undefined,
          // The agent's record says what was generated. If it does not come in time, its agent may have died before it knew.
          ...(last.wasSent && last.frames > 0
            ? { overdue: overdueCount(deps, route, admission, trace, last.frames) }
            : {}),
        };
      case "dropped":
        deps.metrics.aborts.inc({ by: "gateway" });
        reportDelivered(deps, route, admission, trace, 0);
        return broken(trace.attempts, 0, last.why);
      case "refused":
        deps.routes.sawAnswer(route.hostId);
        deps.metrics.upstreamErrors.inc({ reason: last.refusal });
        if (last.refusal === "stops_server") {
          const seconds = last.retryAfterSeconds ?? 60;
          refused.add(model.deployId, account, body.bytes, seconds);
          return broken(ranAttempt, 0, requestStopsServer(seconds));
        }
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
          return broken(ranAttempt, last.frames, upstreamTimeout({ cause: last.cause }));
        }
        deps.routes.sawFailure(route.hostId, route.instanceId);
        // The request itself may crash its hosts: after two failures do not send it to a third.
        if (hasBroken || end.hasForwardedData) {
          deps.metrics.aborts.inc({ by: "upstream" });
          return broken(ranAttempt, last.frames, upstreamBroken({ cause: last.cause }));
        }
        hasBroken = true;
    }
  }
  const end = broken(ranAttempt, 0, noInstance(admission, last, busySeconds));
  return hasBroken ? { ...end, elsewhere: "broken" } : end;
}

function endRouting(span: Span, readyCount: number, choice: Choice | undefined): void {
  span.set({ "stoker.ready_instances": readyCount, "stoker.instance": choice?.route.instanceId });
  span.end({ error: choice ? undefined : "no_instance" });
}

/** Describes the prompt to the router, whose blocks hold one at a time. */
function promptOf(
  { blocks, scopes }: Router,
  readyCount: number,
  { account, model, inputTokensEstimate }: Admission,
  { kind, cacheKey, task, n }: Completion,
  { bytes }: SentBody,
): RoutedPrompt {
  const scope = scopes.of(account, model.adapter?.id);
  if (readyCount === 1 || task) blocks.clear();
  else if (cacheKey) blocks.fillKey(cacheKey, scope);
  else blocks.fill(bytes, kind === "chat" ? "messages" : "prompt", scope);
  return { blocks, tokens: Math.max(1, inputTokensEstimate), sequences: n, scope };
}

/** While a host registers again, its new key is in the routes before the host has it. Nothing ran. */
const isOtherKey = (end: AttemptEnd | undefined) => end?.kind === "refused" && end.refusal === "ticket";
const [keyWaitMs, maxKeyWaits] = [250, 8];

/** Statuses with which a server refuses all requests for now: key, payment, rate and load. */
const refusals: ReadonlySet<number> = new Set([401, 402, 403, 429, 503, 529]);

/** Not after a timeout (504): the client has waited long enough. */
function elsewhereOf(status: number): RelayEnd["elsewhere"] {
  if (refusals.has(status)) return "refused";
  return status >= 500 && status !== 504 ? "broken" : undefined;
}

function outcomeOf(end: AttemptEnd): Outcome {
  switch (end.kind) {
    case "answered":
      return { kind: "answered" };
    case "engine-error":
      switch (accountRefusal(end)) {
        case "code":
          return { kind: "status", status: end.status === 401 ? 401 : 403, retryAfterSeconds: undefined };
        case "words":
          // A customer who chooses the words of an error must not turn away others.
          return { kind: "unknown" };
        default:
          // 403 without a code may be about one request, such as its content.
          return end.status === 403
            ? { kind: "unknown" }
            : { kind: "status", status: end.status, retryAfterSeconds: end.retryAfterSeconds };
      }
    case "broken":
    case "timeout":
      return { kind: "broken" };
    case "refused":
      // The host could not connect to the server.
      return { kind: end.refusal === "not_ready" ? "broken" : "unknown" };
    case "unreachable":
    case "dropped":
    case "client-gone":
      return { kind: "unknown" };
    default:
      return unreachable(end);
  }
}

/** Only for text: tokens do not measure audio or images. */
function overdueOf(deps: RelayDeps, route: Route, admission: Admission, trace: Trace, usage: UsageFigures | undefined) {
  if (!usage || usage.output === 0 || usage.units) return {};
  const { input: inputTokens, cachedInput: cachedInputTokens, output } = usage;
  return { overdue: overdueCount(deps, route, admission, trace, output, { inputTokens, cachedInputTokens }) };
}

/** Returns what reports `output` later. A hold keeps it until its record is durable: it must not refer to the request and its response. */
function overdueCount(
  deps: RelayDeps,
  route: Route,
  admission: Admission,
  trace: Trace,
  output: number,
  figures: Partial<Pick<LostAttempt, "inputTokens" | "cachedInputTokens">> = {},
): () => void {
  const { requestId, attempts, admittedAtMs, endUser } = trace;
  const brokeAtMs = deps.unixMs();
  return () => {
    const count = countOf(deps, route, admission, { requestId, attempts, admittedAtMs, endUser }, output);
    deps.delivered.report({ ...count, lost: { ...count.lost, brokeAtMs, ...figures } }, "overdue");
  };
}

/** Reports what the client received of the current attempt; without a usage record it is billed by this count. */
function reportDelivered(deps: RelayDeps, route: Route, admission: Admission, trace: Trace, frames: number): void {
  deps.delivered.report(countOf(deps, route, admission, trace, frames), "broken");
}

type TracedAttempt = Pick<Trace, "requestId" | "attempts" | "admittedAtMs" | "endUser">;

function countOf(deps: RelayDeps, route: Route, admission: Admission, trace: TracedAttempt, frames: number) {
  return {
    requestId: trace.requestId,
    attempt: trace.attempts,
    account: admission.account,
    outputTokens: frames,
    leaseIds: admission.hold.leaseIds,
    hold: nano(admission.hold.amount),
    lost: { ...lostAttempt(deps.replicaId, route, admission, trace), brokeAtMs: deps.unixMs() },
  };
}

const lostAttempt = (replica: string, route: Route, admission: Admission, trace: TracedAttempt) => ({
  host: route.hostId,
  key: admission.key,
  replica: replica as ReplicaId,
  model: admission.model.name,
  deployId: admission.model.deployId,
  instanceId: route.instanceId,
  admittedAtMs: trace.admittedAtMs,
  endUser: trace.endUser ?? null,
  tier: admission.tier === "default" ? null : admission.tier,
  inputTokens: admission.inputTokensEstimate,
  rates: admission.rates,
  priceVersion: BigInt(admission.model.priceVersion),
  discountId: admission.discountId ?? null,
  ...(admission.provider
    ? { provider: { rates: admission.provider.rates, leaseIds: admission.provider.hold.leaseIds } }
    : {}),
});

const broken = (ranAttempt: number, frames: number, error: ServiceError): RelayEnd => ({
  kind: "failed",
  ranAttempt,
  usage: undefined,
  frames,
  error,
});

interface SentBody extends TaskBody {
  /** At the engine. */
  readonly path: string;
}

const jsonOf = (bytes: Buffer): TaskBody => ({ contentType: "application/json", bytes });

/** Throws FieldUnsupported. */
function bodyFor(completion: Completion, admission: Admission, skills: ReadonlySet<FormatSkill> | undefined): SentBody {
  const { model } = admission;
  if (completion.task) return { path: completion.task.enginePath, ...completion.task.body(model.servedName) };
  if (isMessagesApi(model.api)) return { path: formatPaths.messages, ...jsonOf(anthropicBody(completion, admission)) };
  const path = completion.kind === "chat" ? "/v1/chat/completions" : "/v1/completions";
  return { path, ...jsonOf(forwardBody(completion, admission, skills)) };
}

/** The request in its own format if the instance's engine gives the reply of the translated one. */
function nativeFor(completion: Completion, maxTokens: number, { formats }: Route): NativeRequest | undefined {
  if (!formats || formats.size === 0) return undefined;
  if (completion.promptBytes > maxNativeBytes || maxTokens > maxNativeTokens) return undefined;
  const native = completion.native?.();
  return native?.needs.every((skill) => formats.has(skill)) ? native : undefined;
}

interface Tried {
  readonly end: AttemptEnd;
  readonly hasForwardedData: boolean;
}

function attempt(
  deps: RelayDeps,
  choice: Choice,
  admission: Admission,
  completion: Completion,
  { path: enginePath, contentType, bytes }: SentBody,
  sink: AnswerSink,
  trace: Trace,
): Promise<Tried> {
  const { route } = choice;
  const span = trace.span?.child("relay", {
    kind: "client",
    attributes: {
      "server.address": URL.parse(route.origin)?.hostname,
      "stoker.host": route.hostId,
      "stoker.instance": route.instanceId,
      "stoker.attempt": trace.attempts,
    },
  });
  return new Promise((resolve) => {
    const handler: Attempt = new Attempt({
      sink,
      trace,
      isStream: completion.stream,
      deadlines: deps.deadlines,
      limits: deps.limits,
      terms: termsOf(admission, completion),
      firstByte: () => deps.router.sawFirstByte(choice),
      end: (end) => {
        deps.router.ended(choice);
        span?.end({ error: end.kind === "answered" ? undefined : end.kind });
        resolve({ end, hasForwardedData: handler.hasForwardedData });
      },
    });
    // The agent counts a request with `n` completions as n permits.
    deps.router.sent(choice);
    const path = `/i/${route.instanceId}${enginePath}`;
    const ticket = ticketFor(deps, route, admission, completion, trace, (span ?? trace.span)?.context);
    deps.upstreams.send(route, { path, ticket, body: bytes, contentType }, handler);
  });
}

const termsOf = ({ inputTokensBound, maxTokens, units }: Admission, { n }: Completion): UsageTerms => ({
  inputTokensBound,
  maxTokens,
  permits: n,
  units,
});

/** Called after the instance is chosen, so that time spent waiting does not count against the ticket's lifetime. */
function ticketFor(
  deps: RelayDeps,
  route: Route,
  admission: Admission,
  completion: Completion,
  trace: Trace,
  span: TraceContext | undefined,
): string {
  const { model, account, key, hold, rates, discountId, provider, tier, weight } = admission;
  const { inputTokensBound, inputTokensEstimate, maxTokens, units } = admission;
  // A provider without a limit has no lease.
  const holdExpiresAtMs = provider ? Math.min(hold.expiresAtMs, provider.hold.expiresAtMs) : hold.expiresAtMs;
  return signTicket(
    {
      requestId: trace.requestId,
      attempt: trace.attempts,
      hostId: route.hostId,
      instanceId: route.instanceId,
      deployId: model.deployId,
      admittedAtMs: trace.admittedAtMs,
      expiresAtMs: Math.min(deps.unixMs() + ticketMs, holdExpiresAtMs - clockToleranceMs),
      account,
      keyId: key,
      replicaId: deps.replicaId,
      model: model.name,
      leaseIds: provider ? [...hold.leaseIds, ...provider.hold.leaseIds] : hold.leaseIds,
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
      ...(trace.endUser === undefined ? {} : { endUser: trace.endUser }),
      ...(tier === "default" ? {} : { tier }),
      ...(weight === 1 ? {} : { weight }),
      ...(provider === undefined ? {} : { provider: providerTerms(provider) }),
      ...(span === undefined ? {} : { trace: span }),
      ...(units === undefined ? {} : { units: { ...units, rates: unitRateTexts(rates.units) } }),
    },
    route.ticketKey,
    deps.sealKey(),
  );
}

function providerTerms({ hold, rates }: NonNullable<Admission["provider"]>): TicketProvider {
  const { input, cachedInput, output, request } = rates;
  return {
    leases: hold.leaseIds.length,
    rates: [String(input), String(cachedInput), String(output), String(request)],
  };
}

const rateTexts = oncePer(({ input, cachedInput, output }: TokenRates): readonly [string, string, string] => [
  input.toString(),
  cachedInput.toString(),
  output.toString(),
]);

function unitRateTexts(units: UnitRates | undefined): TicketUnits["rates"] {
  if (!units) return ["0", "0", "0", "0"];
  return [String(units.characters), String(units.audio), String(units.images), String(units.imageUnit)];
}

/** Shown when the agent cannot write usage records, for example because its disk is full. */
const noRecords = "The model's host cannot record usage at the moment, so it takes no requests.";

function noInstance({ model }: Admission, last: AttemptEnd | undefined, busySeconds: number | undefined): ServiceError {
  // A busy instance can serve soon, even if all others failed.
  if (busySeconds !== undefined) return new EngineOverloaded(busySeconds);
  switch (last?.kind) {
    case "broken":
      return upstreamBroken({ cause: last.cause });
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
