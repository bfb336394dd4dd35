// Voices over memory: ada has one.
import { voiceNotFound } from "../../control-plane/assets/errors.ts";
import type { Voice, VoiceId } from "../../control-plane/assets/store.ts";
import type { Voices } from "../../control-plane/assets/voices.ts";
import type { AccountId } from "../../proto/ids.ts";

export const adasVoice: Voice = {
  id: "AdasVoice00000000000" as VoiceId,
  name: "Ada herself",
  description: "calm",
  blends: [{ model: "org/model", blend: "af_heart:0.7,am_adam:0.3", measured: { median_pitch_hz: 190 } }],
  createdAtMs: 1_786_000_000_000,
  updatedAtMs: 1_786_000_000_000,
};

export function fakeVoices(ada: AccountId): Voices {
  const own = (account: AccountId) => (account === ada ? [adasVoice] : []);
  const get = (account: AccountId, id: string) => {
    const found = own(account).find((voice) => voice.id === id);
    return found ? Promise.resolve(found) : Promise.reject(voiceNotFound());
  };
  return {
    list: (account) => Promise.resolve(own(account)),
    get,
    mayAdd: () => Promise.resolve(),
    add: (_account, request, _samples, blend) => Promise.resolve({ ...adasVoice, ...request, blends: [blend] }),
    edit: async (account, id, name, description) => {
      const voice = await get(account, id);
      return { ...voice, name, description: description ?? voice.description };
    },
    remove: async (account, id) => void (await get(account, id)),
    samples: () => Promise.resolve([{ contentType: "audio/wav", bytes: Buffer.from("RIFF") }]),
    keepBlend: () => Promise.resolve(),
    find: (account, named) => own(account).find(({ id, name }) => id === named || name === named),
  };
}
