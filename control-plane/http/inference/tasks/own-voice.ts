// Resolves the voice of a speech request: one of the caller's own, by id or name, becomes the blend that the model understands; any
// other name goes to the model unchanged.
import type { Caller } from "../../../accounts/caller.ts";
import { isPresetVoice } from "../../../assets/preset-voices.ts";
import type { Voice } from "../../../assets/store.ts";
import type { Voices } from "../../../assets/voices.ts";
import { modelFor } from "../../../inference/admit.ts";
import type { Spine } from "../../../inference/complete.ts";
import { measureVoice } from "./measure-voice.ts";

/** Returns a promise only if a lookup or measurement is needed. Throws the errors of measure-voice.ts. */
export type OwnVoice = (caller: Caller, model: string, voice: string) => string | Promise<string>;

export function ownVoice(spine: Spine, voices: Pick<Voices, "find" | "samples" | "keepBlend">): OwnVoice {
  async function measured(caller: Caller, model: string, voice: Voice): Promise<string> {
    const { account } = caller;
    const blend = await measureVoice(spine, caller, model, await voices.samples(account, voice));
    await voices.keepBlend(account, voice, blend);
    return blend.blend;
  }

  return (caller, model, named) => {
    if (named === "" || isPresetVoice(named)) return named;
    const spoken = (voice: Voice | undefined): string | Promise<string> => {
      if (!voice) return named;
      const { name, task } = modelFor(spine.models, caller, model);
      if (task !== "text-to-speech") return named;
      return voice.blends.find((one) => one.model === name)?.blend ?? measured(caller, model, voice);
    };
    const found = voices.find(caller.account, named);
    return found instanceof Promise ? found.then(spoken) : spoken(found);
  };
}
