// Computes, from recordings of a speaker, a blend of the model's own voices that sounds like it. The model server measures it,
// through the same five steps as any request.
import { randomId } from "../../../../proto/ids.ts";
import type { Caller } from "../../../accounts/caller.ts";
import { badVoiceSamples, modelCannotBlend } from "../../../assets/errors.ts";
import type { VoiceBlend, VoiceSample } from "../../../assets/store.ts";
import { backgroundTrace } from "../../../inference/background-trace.ts";
import { complete, type Spine } from "../../../inference/complete.ts";
import { taskCompletion } from "../../../inference/completion.ts";
import { upstreamBroken, WrongTask } from "../../../inference/errors.ts";
import { exactly } from "../../../inference/task.ts";
import { FormFile, writeForm } from "../../body/form-body.ts";
import { KeptSink } from "../kept-sink.ts";

const maxAnswerBytes = 1024 * 1024;

/** Throws the errors of complete.ts, modelCannotBlend, badVoiceSamples. */
export async function measureVoice(
  spine: Spine,
  caller: Caller,
  model: string,
  samples: readonly VoiceSample[],
): Promise<VoiceBlend> {
  if (samples.length === 0) throw badVoiceSamples("This voice has no recordings. Delete it and add it again.");
  const files = samples.map(({ contentType, bytes }, i) => new FormFile(`sample-${i + 1}`, contentType, bytes));
  const completion = taskCompletion("inference", model, {
    enginePath: "/v1/audio/voices",
    inputTokensBound: 0,
    inputTokensEstimate: 0,
    units: () => exactly({}),
    body: () => writeForm([["files", files]]),
  });
  const sink = new KeptSink(spine.answers, caller.account, maxAnswerBytes);
  // Own request id: it may run inside a request that is billed separately.
  const trace = backgroundTrace({ requestId: randomId(24), admittedAtMs: spine.unixMs(), bodyBytes: 0 });
  try {
    await complete(spine, caller, completion, sink, trace);
  } catch (error) {
    // The engine has no such path: the model has no speech, or a single voice.
    throw error instanceof WrongTask ? modelCannotBlend(model) : error;
  } finally {
    sink.letGo();
  }
  return blendOf(spine.models.resolve(model, caller.account)?.name ?? model, jsonOf(sink.answer?.body));
}

/** Undefined for a missing or unparsable body. */
function jsonOf(body: Buffer | undefined): unknown {
  try {
    return body && JSON.parse(body.toString());
  } catch {
    return undefined;
  }
}

function blendOf(model: string, answer: unknown): VoiceBlend {
  const { voice, measured, note } = (answer ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof voice !== "string" || voice === "" || voice.length > 1000)
    throw upstreamBroken({ cause: new Error("the model server named no voice") });
  const found = typeof measured === "object" && measured !== null ? measured : {};
  return { model, blend: voice, measured: { ...found, ...(typeof note === "string" ? { note } : {}) } };
}
