// Runs responses in the background: a stored request, run through the spine, its response buffered until it is stored.
import type { RequestId } from "../../../../proto/ids.ts";
import { backgroundTrace } from "../../../inference/background-trace.ts";
import { type ByteBudget, HeldBytes } from "../../../inference/byte-budget.ts";
import type { Spine } from "../../../inference/complete.ts";
import { UnusableAnswer, upstreamBroken } from "../../../inference/errors.ts";
import type { RunResponse } from "../../../responses/run-responses.ts";
import type { RequestTally } from "../../../series/request-tally.ts";
import { ServiceError } from "../../../service-error.ts";
import { bodiesFull } from "../../errors/errors.ts";
import { refusalOf } from "../../errors/render-error.ts";
import type { WholeAnswer } from "../buffered-sink.ts";
import { KeptSink } from "../kept-sink.ts";
import { backgroundSpan, noteBackground } from "../note-background.ts";
import { completeInstead } from "../relayed.ts";
import { type PreparedResponse, prepareResponse, type ResponseFeatures } from "./prepare.ts";
import { type ResponseState, responseObject } from "./response-object.ts";
import { type OutputOptions, ResponseOutput, wholeOutput } from "./response-output.ts";
import { errorOf } from "./response-stream.ts";
import type { ResponseItem, ResponseRequest } from "./responses-schemas.ts";

export const requestIdOf = (id: string): RequestId => id.slice("resp_".length) as RequestId;

export interface BackgroundFeatures extends ResponseFeatures {
  readonly bodies: ByteBudget;
  readonly tally: Pick<RequestTally, "note">;
}

export function responseJobs(spine: Spine, features: BackgroundFeatures): RunResponse {
  return async ({ id, account, key, content, createdAtMs, bytes }, caller, firstAttempt, signal) => {
    const requestId = requestIdOf(id);
    const body = { ...content.body, input: content.items as readonly ResponseItem[] } as ResponseRequest;
    const held = new HeldBytes(features.bodies, account);
    // Without capacity the run returns to the queue.
    const hold = (more: number) => {
      if (!held.hold(more)) throw bodiesFull();
    };
    const facts = { requestId, createdAtMs, bytes, hold, unixMs: spine.unixMs };
    const { label, source } = content;
    const trace = backgroundTrace({
      requestId,
      label,
      source,
      admittedAtMs: createdAtMs,
      bodyBytes: bytes,
      account,
      key,
      attempts: firstAttempt,
      span: backgroundSpan(spine, "background response", requestId),
    });
    const sink = new KeptSink(spine.answers, account);
    const abort = () => sink.abandon();
    let isKept = false;
    signal.addEventListener("abort", abort, { once: true });
    let prepared: PreparedResponse | undefined;
    try {
      prepared = await prepareResponse(features, caller, body, facts);
      if (signal.aborted) return undefined;
      trace.operation = prepared.completion.kind;
      await completeInstead(spine, caller, prepared.completion, sink, trace, prepared.insteadOf);
      if (signal.aborted) return undefined;
      if (!sink.answer && !sink.isTooLarge) throw upstreamBroken({ cause: new Error("no response came") });
      const ended = endOf(prepared.options, sink.answer);
      isKept = true;
      noteBackground(features.tally, account, trace);
      return { ...ended, letGo: () => sink.letGo() };
    } catch (error) {
      if (signal.aborted) return undefined;
      noteBackground(features.tally, account, trace, error);
      if (!prepared || !isCallersFault(error)) throw error;
      // Sending it again would not help.
      const output = new ResponseOutput(prepared.options);
      output.fail(errorOf(refusalOf(error)));
      const response = responseObject(prepared.options.frame, output.final as ResponseState);
      return { status: "failed", response, letGo: () => {} };
    } finally {
      held.letGo();
      signal.removeEventListener("abort", abort);
      if (!isKept) sink.letGo();
    }
  };
}

function endOf(options: OutputOptions, answer: WholeAnswer | undefined) {
  try {
    if (!answer) throw new Error("the response was too large");
    const state = wholeOutput(options, answer.body);
    return { status: state.status, response: responseObject(options.frame, state) };
  } catch (error) {
    throw new UnusableAnswer(error);
  }
}

const isCallersFault = (error: unknown): boolean =>
  error instanceof ServiceError && ["bad_request", "invalid", "too_large"].includes(error.kind);
