// The spine: admit, route, relay, settle. The only function that knows the order.
import { costOf, nano } from "../../proto/money.ts";
import type { Caller } from "../accounts/caller.ts";
import type { RequestLabels } from "../billing/request-labels.ts";
import { type Admission, type AdmitDeps, admit } from "./admit.ts";
import type { AnswerSink } from "./answer-sink.ts";
import type { ColdStarts } from "./cold-start.ts";
import type { Completion, Trace } from "./completion.ts";
import { ModelNotReady } from "./errors.ts";
import { type RelayDeps, type RelayEnd, relay } from "./relay.ts";

export interface Spine extends AdmitDeps, RelayDeps {
  readonly labels: Pick<RequestLabels, "note">;
  /** Undefined: nobody waits for an instance. */
  readonly coldStarts?: ColdStarts;
}

const notStarted: RelayEnd = { kind: "failed", ranAttempt: 0, usage: undefined, frames: 0, error: undefined };

/**
 * Runs one request and writes its answer to `sink`. Throws the errors of admit.ts and, when no answer could be given or it
 * broke, those of errors.ts: the sink may have started by then. Returns without an answer when the client is gone.
 */
export async function complete(
  spine: Spine,
  caller: Caller,
  completion: Completion,
  sink: AnswerSink,
  trace: Trace,
  label: string | undefined,
): Promise<void> {
  for (;;) {
    let admission: Admission;
    try {
      const admitted = admit(spine, caller, completion, trace);
      admission = admitted instanceof Promise ? await admitted : admitted;
    } catch (error) {
      spine.metrics.refused(error);
      throw error;
    }
    if (admission.isLowered) trace.loweredMaxTokens = admission.maxTokens;
    if (label !== undefined) spine.labels.note(trace.requestId, label, caller.account);
    let end = notStarted;
    try {
      end = await relay(spine, admission, completion, sink, trace);
    } finally {
      // Only the agent's figures may free money: without them the hold stays until its record arrives.
      settle(admission, end);
      admission.permit.end(tokensOf(admission, end));
    }
    if (!end.error) return;
    const mayWait = end.ranAttempt === 0 && end.error instanceof ModelNotReady && spine.coldStarts !== undefined;
    if (!mayWait) throw end.error;
    // Nothing is held of a caller that waits: its money and its rate are asked for anew afterwards.
    const next = await spine.coldStarts?.wait(admission.model, completion.stream, sink, trace.startedMs);
    if (next === "gone") return;
  }
}

function settle({ hold, rates }: Admission, { usage, ranAttempt }: RelayEnd): void {
  if (ranAttempt === 0) hold.release();
  else if (usage) {
    const cost = costOf(usage, rates);
    hold.settle(cost < hold.amount ? cost : nano(hold.amount), ranAttempt);
  } else hold.awaitRecord(ranAttempt);
}

/** For the rate limit alone. A client that hangs up must not use a model for nothing: without figures they are estimated. */
function tokensOf({ inputTokensBound }: Admission, { usage, ranAttempt, frames }: RelayEnd): number {
  if (usage) return usage.input + usage.output;
  return ranAttempt === 0 ? 0 : Math.ceil(inputTokensBound / bytesPerToken) + frames;
}

/** Of usual text; the bound counts one token per byte. */
const bytesPerToken = 4;
