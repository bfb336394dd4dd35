// The spine: admit, route, relay, settle. Only this function defines their order.
import { costOf, nano } from "../../proto/money.ts";
import type { Tracing } from "../../proto/tracing.ts";
import type { Caller } from "../accounts/caller.ts";
import { ProviderLimitReached } from "../billing/hold.ts";
import { providerCostOf } from "../billing/provider-cost.ts";
import type { RequestLabels } from "../billing/request-labels.ts";
import type { ServedAdapter } from "../catalog/served-model.ts";
import { RateLimited } from "../quotas/errors.ts";
import { ServiceError } from "../service-error.ts";
import { type Admission, type AdmitDeps, admit } from "./admit.ts";
import type { AnswerSink } from "./answer-sink.ts";
import { candidatesOf } from "./candidates.ts";
import type { ColdStarts } from "./cold-start.ts";
import type { Completion, Trace } from "./completion.ts";
import { EngineOverloaded, FieldUnsupported, InstancesUnreachable, ModelNotFound, ModelNotReady } from "./errors.ts";
import { type RelayDeps, type RelayEnd, relay } from "./relay.ts";
import type { ResponseBuffer } from "./response-buffer.ts";

export interface Spine extends AdmitDeps, RelayDeps {
  readonly labels: Pick<RequestLabels, "note">;
  /** Called for every request on an adapter: unused adapters are evicted. Must not throw or wait. */
  readonly adapterUse?: (adapter: ServedAdapter) => void;
  /** For work without a connection; undefined: traces are off. */
  readonly tracing?: Tracing | undefined;
  /** Memory budget for buffered responses. */
  readonly answers: ResponseBuffer;
  /** Undefined: requests do not wait for an instance. */
  readonly coldStarts?: ColdStarts;
  /** Checks a caller again after a wait. Undefined: no check. */
  readonly standing?: CallerStanding;
}

/** Implemented by accounts/authenticate.ts. */
export interface CallerStanding {
  /** Position in the order of changes, for `again`. */
  now(): number;
  /** Returns the caller's current state; looks it up only if it changed since. `address`: the client's, if the key's addresses count. Throws the errors of authentication. */
  again(caller: Caller, since: number, address?: string): Caller | Promise<Caller>;
}

const notStarted: RelayEnd = { kind: "failed", ranAttempt: 0, usage: undefined, frames: 0, error: undefined };

/**
 * Runs one request and writes its response to `sink`. Throws the errors of admit.ts, and those of errors.ts if there is no
 * response or it broke: the sink may have started by then. Returns without a response when the client is gone. True: it ran.
 */
export async function complete(
  spine: Spine,
  caller: Caller,
  completion: Completion,
  sink: AnswerSink,
  trace: Trace,
): Promise<boolean> {
  let asking = caller;
  const candidates = candidatesOf(spine.models, caller, completion);
  let hasBroken = false;
  for (let place = 0; ; ) {
    const wanted = candidates[place] as Completion;
    const isLast = place === candidates.length - 1;
    let admission: Admission;
    try {
      const admitted = traced(spine, asking, wanted, trace);
      admission = admitted instanceof Promise ? await admitted : admitted;
    } catch (error) {
      if (!isLast && isElsewhere(error)) {
        place += 1;
        continue;
      }
      spine.metrics.refused(error);
      throw error;
    }
    if (admission.isLowered) trace.loweredMaxTokens = admission.maxTokens;
    trace.endUser = endUserOf(caller, completion, trace);
    noteMarks(spine, caller, completion, trace);
    if (admission.model.adapter) spine.adapterUse?.(admission.model.adapter);
    let end = notStarted;
    try {
      end = await relay(spine, admission, wanted, sink, trace);
    } finally {
      // Only the agent's figures may release money: without them the hold stays until its record arrives.
      settle(admission, end);
      // A request that waits for an instance keeps its permit: a cold start must not bypass the limit.
      if (!isLast || !waits(spine, completion, end)) admission.permit.end(tokensOf(admission, end));
    }
    if (!end.error) return end.ranAttempt > 0;
    // Another instance of this model may sleep.
    if (end.error instanceof EngineOverloaded) spine.coldStarts?.wake(admission.model);
    // The request itself may crash servers: after two failures do not send it to a third.
    const mayMove = end.elsewhere === "refused" || (end.elsewhere === "broken" && !hasBroken);
    hasBroken ||= end.elsewhere === "broken";
    if (end.ranAttempt > 0) {
      if (isLast || !mayMove) throw end.error;
      place += 1;
      continue;
    }
    if (!isLast && isElsewhere(end.error)) {
      // Another model serves this request; the next one may find an instance of this model.
      if (waits(spine, completion, end)) spine.coldStarts?.wake(admission.model);
      place += 1;
      continue;
    }
    if (!isLast || !waits(spine, completion, end)) throw end.error;
    try {
      // A waiting request holds no money: it is reserved again afterwards.
      const since = spine.standing?.now() ?? 0;
      const next = await spine.coldStarts?.wait(admission.model, completion.stream, sink, trace, caller.account);
      if (next === "gone") return false;
      // The key may have been revoked during the wait.
      if (spine.standing) asking = await spine.standing.again(asking, since, trace.address);
    } finally {
      admission.permit.end(0);
    }
  }
}

/** Admits it, in a span where the request has one. */
function traced(spine: Spine, caller: Caller, wanted: Completion, trace: Trace): Admission | Promise<Admission> {
  const span = trace.span?.child("admit");
  if (!span) return admit(spine, caller, wanted, trace);
  const failed = (error: unknown): never => {
    span.end({ error: codeOf(error) });
    throw error;
  };
  const admitted = (admission: Admission): Admission => {
    span.end();
    return admission;
  };
  try {
    const admission = admit(spine, caller, wanted, trace);
    return admission instanceof Promise ? admission.then(admitted, failed) : admitted(admission);
  } catch (error) {
    return failed(error);
  }
}

const codeOf = (error: unknown): string => (error instanceof ServiceError ? error.code : "internal");

const waits = (spine: Spine, { failFast }: Completion, end: RelayEnd): boolean =>
  end.error instanceof ModelNotReady && end.ranAttempt === 0 && spine.coldStarts !== undefined && failFast !== true;

/** The request did not run, and another model may serve it now. */
const isElsewhere = (error: unknown): boolean =>
  error instanceof ModelNotFound ||
  error instanceof ModelNotReady ||
  error instanceof EngineOverloaded ||
  error instanceof InstancesUnreachable ||
  error instanceof RateLimited ||
  error instanceof FieldUnsupported ||
  error instanceof ProviderLimitReached;

const maxEndUserLength = 256;

function endUserOf(caller: Caller, { endUser }: Completion, { userHeader }: Trace): string | undefined {
  const named = (caller.trustsUserHeaders ? userHeader : undefined) ?? endUser;
  // PostgreSQL holds neither NUL nor half a surrogate pair.
  return named?.replaceAll("\0", "").slice(0, maxEndUserLength).toWellFormed() || undefined;
}

function noteMarks(spine: Spine, caller: Caller, { cacheKey }: Completion, trace: Trace): void {
  const { requestId, label, source } = trace;
  if (label === undefined && source === undefined && cacheKey === undefined) return;
  spine.labels.note(requestId, label, caller.account, { cacheKey, source });
}

function settle({ hold, rates, provider }: Admission, { usage, ranAttempt, overdue }: RelayEnd): void {
  if (ranAttempt === 0) {
    hold.release();
    provider?.hold.release();
  } else if (usage) {
    const cost = costOf(usage, rates);
    hold.settle(cost < hold.amount ? cost : nano(hold.amount), ranAttempt, overdue);
    provider?.hold.settle(providerCostOf(usage, provider.rates), ranAttempt);
  } else {
    hold.awaitRecord(ranAttempt, overdue);
    provider?.hold.awaitRecord(ranAttempt);
  }
}

/** For the rate limit only. Without figures, estimated: a client that disconnects must not use a model for free. */
function tokensOf({ inputTokensBound }: Admission, { usage, ranAttempt, frames }: RelayEnd): number {
  if (usage) return usage.input + usage.output;
  return ranAttempt === 0 ? 0 : Math.ceil(inputTokensBound / bytesPerToken) + frames;
}

/** Average of ordinary text; the bound counts one token per byte. */
const bytesPerToken = 4;
