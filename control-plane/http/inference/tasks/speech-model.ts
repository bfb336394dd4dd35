import type { Caller } from "../../../accounts/caller.ts";
import { onlyVoiceOf } from "../../../assets/preset-voices.ts";
import type { ModelDirectory } from "../../../catalog/served-model.ts";
import { mayUse } from "../../../inference/may-use.ts";

/** The demo model of speech: chosen before others, and named where none is served. */
const usual = "hexgrad/Kokoro-82M";

/**
 * What speaks where a request names no model: the one that has the voice for itself, else the operator's choice, else one that is
 * served, public ones first.
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
  const its = voice === undefined ? undefined : served.find(({ name }) => onlyVoiceOf(name) === voice);
  if (its) return its.name;
  if (chosen !== undefined) return chosen;
  const first = served.find(({ name }) => name === usual) ?? served.find(({ isPublic }) => isPublic) ?? served[0];
  return first?.name ?? usual;
}
