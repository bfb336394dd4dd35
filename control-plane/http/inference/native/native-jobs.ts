// Native requests with a webhook: stored as JSON, run later through the spine, their response buffered for the webhook call.
import { costUsd } from "../../../../proto/money.ts";
import type { Caller } from "../../../accounts/caller.ts";
import { modelFor } from "../../../inference/admit.ts";
import { backgroundTrace } from "../../../inference/background-trace.ts";
import { complete, type Spine } from "../../../inference/complete.ts";
import type { Trace } from "../../../inference/completion.ts";
import { UnusableAnswer, upstreamBroken } from "../../../inference/errors.ts";
import type { RequestTally } from "../../../series/request-tally.ts";
import type { JobAnswer, RunJob, WebhookJob } from "../../../webhooks/job.ts";
import { FormFile } from "../../body/form-body.ts";
import { readJson } from "../../body/json-body.ts";
import { KeptSink } from "../kept-sink.ts";
import type { NativeRequest } from "../native-schemas.ts";
import { backgroundSpan, noteBackground } from "../note-background.ts";
import type { RenderNative } from "./answers.ts";
import { dataUri } from "./media.ts";
import { prepare } from "./prepare.ts";

/** The body to store: without its webhook, files as data URIs, a seed beyond 2^53 unchanged. */
export function keptBody(body: NativeRequest): Buffer {
  const { webhook: _, ...rest } = body;
  const plain = (_key: string, value: unknown) =>
    value instanceof FormFile ? dataUri(value.contentType, value.bytes) : value;
  return Buffer.from(JSON.stringify(rest, plain));
}

export function nativeJobs(spine: Spine, tally: Pick<RequestTally, "note">): RunJob {
  return async (job, caller, firstAttempt, signal) => {
    const { value, exact } = readJson(job.body);
    const kept = value as NativeRequest;
    const body = exact?.["seed"] === undefined ? kept : { ...kept, seed: exact["seed"] as number };
    const { completion, render } = prepare(body, modelFor(spine.models, caller, job.model), job.model);
    const trace = traceOf(
      job,
      caller,
      firstAttempt,
      backgroundSpan(spine, "webhook request", job.requestId, job.trace),
    );
    trace.operation = completion.kind;
    const sink = new KeptSink(spine.answers, caller.account);
    const abort = () => sink.abandon();
    if (signal.aborted) return undefined;
    signal.addEventListener("abort", abort, { once: true });
    let answer: JobAnswer | undefined;
    try {
      await complete(spine, caller, completion, sink, trace);
      answer = signal.aborted ? undefined : answerOf(sink, render, trace);
      if (answer) noteBackground(tally, caller.account, trace);
    } catch (error) {
      noteBackground(tally, caller.account, trace, error);
      throw error;
    } finally {
      signal.removeEventListener("abort", abort);
      if (!answer) sink.letGo();
    }
    return answer;
  };
}

function answerOf(sink: KeptSink, render: RenderNative, trace: Trace): JobAnswer {
  if (sink.isTooLarge) throw new UnusableAnswer(new Error("the response was too large"));
  if (!sink.answer) throw upstreamBroken({ cause: new Error("no response came") });
  try {
    return { results: render(sink.answer, trace), ...costsOf(trace), letGo: () => sink.letGo() };
  } catch (error) {
    throw new UnusableAnswer(error);
  }
}

function costsOf({ startedMs, usage, rates }: Trace) {
  return {
    runtimeMs: Math.max(1, Math.round(performance.now() - startedMs)),
    cost: costUsd(usage, rates),
  };
}

/** All runs of a job have one admission time: its records count in the month in which it was accepted. */
function traceOf(
  { requestId, label, source, createdAtMs, body }: WebhookJob,
  { account, key }: Caller,
  attempts: number,
  span: Trace["span"],
): Trace {
  const known = { requestId, label, source, admittedAtMs: createdAtMs, bodyBytes: body.length };
  return backgroundTrace({ ...known, account, key, attempts, span });
}
