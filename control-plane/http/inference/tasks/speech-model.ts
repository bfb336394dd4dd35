import { onlyVoiceOf } from "../../../../proto/piper-voice.ts";
import type { Caller } from "../../../accounts/caller.ts";
import type { ModelDirectory } from "../../../catalog/served-model.ts";
import { mayUse } from "../../../inference/may-use.ts";

/** Demo model of speech: preferred over others, and returned if none is served. */
const usual = "hexgrad/Kokoro-82M";

/**
 * Model for a speech request without one: the only model with that voice, otherwise the operator's choice, otherwise a served
 * model, public ones first.
 */
export function speechModel(
  models: ModelDirectory,
  caller: Caller,
  chosen: string | undefined,
  voice?: string,
): string {
  const served = models
    .list(caller.account)
    .filter((model) => model.task === "text-to-speech" && mayUse(caller.models, model, model.name));
  const ofVoice = voice === undefined ? undefined : served.find(({ name }) => onlyVoiceOf(name) === voice);
  if (ofVoice) return ofVoice.name;
  if (chosen !== undefined) return chosen;
  const first = served.find(({ name }) => name === usual) ?? served.find(({ isPublic }) => isPublic) ?? served[0];
  return first?.name ?? usual;
}
