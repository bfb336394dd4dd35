// Recordings of a speaker -> the blend of a model's own voices that stands for him, measured by the model server through the
// same five steps as any request.
import { randomId } from "../../../proto/ids.ts";
import type { Caller } from "../../accounts/caller.ts";
import { BadVoiceSamples, ModelCannotBlend } from "../../assets/errors.ts";
import type { VoiceBlend, VoiceSample } from "../../assets/store.ts";
import { complete, type Spine } from "../../inference/complete.ts";
import { type Trace, taskCompletion } from "../../inference/completion.ts";
import { UpstreamBroken, WrongTask } from "../../inference/errors.ts";
import { exactly } from "../../inference/task.ts";
import { FormFile, writeForm } from "../form-body.ts";
import { KeptAnswer } from "../kept-answer.ts";

/** Throws the errors of complete.ts, ModelCannotBlend, BadVoiceSamples. */
export async function measureVoice(
  spine: Spine,
  caller: Caller,
  model: string,
  samples: readonly VoiceSample[],
): Promise<VoiceBlend> {
  if (samples.length === 0) throw new BadVoiceSamples("This voice has no recordings. Delete it and add it anew.");
  const files = samples.map(({ contentType, bytes }, i) => new FormFile(`sample-${i + 1}`, contentType, bytes));
  const completion = taskCompletion("inference", model, {
    enginePath: "/v1/audio/voices",
    inputTokensBound: 0,
    inputTokensEstimate: 0,
    units: () => exactly({}),
    body: () => writeForm([["files", files]]),
  });
  const answer = new KeptAnswer();
  try {
    await complete(spine, caller, completion, answer, traceOf(spine.unixMs()));
  } catch (error) {
    throw error instanceof WrongTask ? new ModelCannotBlend(model) : error;
  }
  return blendOf(spine.models.resolve(model, caller.account)?.name ?? model, answer.json());
}

function blendOf(model: string, answer: unknown): VoiceBlend {
  const { voice, measured, note } = (answer ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof voice !== "string" || voice === "" || voice.length > 1000)
    throw new UpstreamBroken({ cause: new Error("the model server named no voice") });
  const found = typeof measured === "object" && measured !== null ? measured : {};
  return { model, blend: voice, measured: { ...found, ...(typeof note === "string" ? { note } : {}) } };
}

/** Of its own: it may run inside a request that is billed for itself. */
const traceOf = (unixMs: number): Trace => ({
  requestId: randomId(24),
  label: undefined,
  source: undefined,
  admittedAtMs: unixMs,
  startedMs: performance.now(),
  account: undefined,
  key: undefined,
  model: undefined,
  operation: undefined,
  isStream: false,
  instance: undefined,
  attempts: 0,
  firstByteMs: 0,
  usage: undefined,
  rate: undefined,
  rates: undefined,
  loweredMaxTokens: undefined,
});
