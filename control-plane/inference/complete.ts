// The spine: admit, route, relay, settle. The only function that knows the order.
import { costOf, nano } from "../../proto/money.ts";
import type { Caller } from "../accounts/caller.ts";
import type { RequestLabels } from "../billing/request-labels.ts";
import type { ServedAdapter } from "../catalog/served-model.ts";
import { RateLimited } from "../quotas/errors.ts";
import { type Admission, type AdmitDeps, admit } from "./admit.ts";
import type { AnswerSink } from "./answer-sink.ts";
import type { ColdStarts } from "./cold-start.ts";
import type { Completion, Trace } from "./completion.ts";
import { EngineOverloaded, InstancesUnreachable, ModelNotFound, ModelNotReady } from "./errors.ts";
import { type RelayDeps, type RelayEnd, relay } from "./relay.ts";
import type { ResponseBuffer } from "./response-buffer.ts";

export interface Spine extends AdmitDeps, RelayDeps {
  readonly labels: Pick<RequestLabels, "note">;
  /** Told of every request on an adapter: those not used give their place away. Must not throw or wait. */
  readonly adapterUse?: (adapter: ServedAdapter) => void;
  /** Of what is kept of answers before it is handed on. */
  readonly answers: ResponseBuffer;
  /** Undefined: nobody waits for an instance. */
  readonly coldStarts?: ColdStarts;
  /** Whether a caller that waited is still one. Undefined: nobody looks. */
  readonly standing?: CallerStanding;
}

/** Implemented by accounts/authenticate.ts. */
export interface CallerStanding {
  /** A moment, to be named when the wait is over. */
  now(): number;
  /** The caller as it is now, from memory where nothing of it changed since. Throws as authenticating it anew would. */
  again(caller: Caller, since: number): Caller | Promise<Caller>;
}

const notStarted: RelayEnd = { kind: "failed", ranAttempt: 0, usage: undefined, frames: 0, error: undefined };

/**
 * Runs one request and writes its answer to `sink`. Throws the errors of admit.ts and, when no answer could be given or it
 * broke, those of errors.ts: the sink may have started by then. Returns without an answer when the client is gone; whether
 * any of it ran.
 */
export async function complete(
  spine: Spine,
  caller: Caller,
  completion: Completion,
  sink: AnswerSink,
  trace: Trace,
): Promise<boolean> {
  let asking = caller;
  let wanted = completion;
  let others = completion.fallbacks;
  for (;;) {
    let admission: Admission;
    try {
      const admitted = admit(spine, asking, wanted, trace);
      admission = admitted instanceof Promise ? await admitted : admitted;
    } catch (error) {
      const [other, ...rest] = others ?? [];
      if (other !== undefined && isElsewhere(error)) {
        wanted = askedOf(completion, other);
        others = rest;
        continue;
      }
      spine.metrics.refused(error);
      throw error;
    }
    if (admission.isLowered) trace.loweredMaxTokens = admission.maxTokens;
    noteMarks(spine, caller, completion, trace);
    if (admission.model.adapter) spine.adapterUse?.(admission.model.adapter);
    let end = notStarted;
    try {
      end = await relay(spine, admission, wanted, sink, trace);
    } finally {
      // Only the agent's figures may free money: without them the hold stays until its record arrives.
      settle(admission, end);
      // Who waits for an instance keeps its place meanwhile: a model that starts is no way around the limit.
      if (!waits(spine, completion, others, end)) admission.permit.end(tokensOf(admission, end));
    }
    if (!end.error) return end.ranAttempt > 0;
    if (end.ranAttempt > 0) throw end.error;
    const [other, ...rest] = others ?? [];
    if (other !== undefined && isElsewhere(end.error)) {
      wanted = askedOf(completion, other);
      others = rest;
      continue;
    }
    if (!waits(spine, completion, others, end)) throw end.error;
    try {
      // No money is held of a caller that waits: it is asked for anew afterwards.
      const since = spine.standing?.now() ?? 0;
      const next = await spine.coldStarts?.wait(admission.model, completion.stream, sink, trace, caller.account);
      if (next === "gone") return false;
      // A key that was revoked meanwhile opens nothing any more.
      if (spine.standing) asking = await spine.standing.again(asking, since);
    } finally {
      admission.permit.end(0);
    }
  }
}

const waits = (spine: Spine, { failFast }: Completion, others: readonly string[] | undefined, end: RelayEnd): boolean =>
  end.error instanceof ModelNotReady &&
  end.ranAttempt === 0 &&
  spine.coldStarts !== undefined &&
  failFast !== true &&
  (others === undefined || others.length === 0);

/** Nothing ran of it, and another model may serve it now. */
const isElsewhere = (error: unknown): boolean =>
  error instanceof ModelNotFound ||
  error instanceof ModelNotReady ||
  error instanceof EngineOverloaded ||
  error instanceof InstancesUnreachable ||
  error instanceof RateLimited;

const askedOf = (completion: Completion, model: string): Completion => ({ ...completion, model, isRebuilt: true });

function noteMarks(spine: Spine, caller: Caller, { endUser, cacheKey }: Completion, trace: Trace): void {
  const { requestId, label, source } = trace;
  if (label === undefined && source === undefined && endUser === undefined && cacheKey === undefined) return;
  spine.labels.note(requestId, label, caller.account, { endUser, cacheKey, source });
}

function settle({ hold, rates }: Admission, { usage, ranAttempt, overdue }: RelayEnd): void {
  if (ranAttempt === 0) hold.release();
  else if (usage) {
    const cost = costOf(usage, rates);
    hold.settle(cost < hold.amount ? cost : nano(hold.amount), ranAttempt, overdue);
  } else hold.awaitRecord(ranAttempt);
}

/** For the rate limit alone. A client that hangs up must not use a model for nothing: without figures they are estimated. */
function tokensOf({ inputTokensBound }: Admission, { usage, ranAttempt, frames }: RelayEnd): number {
  if (usage) return usage.input + usage.output;
  return ranAttempt === 0 ? 0 : Math.ceil(inputTokensBound / bytesPerToken) + frames;
}

/** Of usual text; the bound counts one token per byte. */
const bytesPerToken = 4;
