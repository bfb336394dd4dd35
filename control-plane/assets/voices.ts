// Voices of accounts: a record, its recordings (sealed), and for each model the blend of the model's own voices that represents
// the speaker. Model servers measure recordings; callers pass the result.

import { type AccountId, randomId } from "../../proto/ids.ts";
import { badVoiceSamples, voiceAccountGone, voiceNameTaken, voiceNotFound, voiceSlotsFull } from "./errors.ts";
import { isPresetVoice } from "./preset-voices.ts";
import type { Voice, VoiceBlend, VoiceId, VoiceSample, VoiceStore } from "./store.ts";

/** Limits of one account. */
export const maxVoices = 30;
export const maxSamples = 25;

export interface SampleSeal {
  seal(account: AccountId, plain: Buffer): Promise<Buffer>;
  open(account: AccountId, sealed: Buffer): Promise<Buffer>;
}

export function createVoices(deps: {
  readonly store: VoiceStore;
  readonly seal: SampleSeal;
  readonly changes: VoiceChanges;
}) {
  const { store, seal } = deps;
  return {
    /** By id or name; synchronous when the account's voices are cached. */
    find: createVoiceBook(store, deps.changes),
    /** Oldest first. */
    list: store.voices,
    /** Throws voiceNotFound. */
    async get(account: AccountId, id: string): Promise<Voice> {
      const found = (await store.voices(account)).find((voice) => voice.id === id);
      if (!found) throw voiceNotFound();
      return found;
    },
    /** Call it before measuring. Throws badVoiceSamples, voiceNameTaken, voiceSlotsFull. */
    async mayAdd(account: AccountId, name: string, samples: readonly VoiceSample[]): Promise<void> {
      checkSamples(samples);
      if (isPresetVoice(name)) throw voiceNameTaken(name);
      const existing = await store.voices(account);
      if (existing.some((voice) => voice.name === name)) throw voiceNameTaken(name);
      if (existing.length >= maxVoices) throw voiceSlotsFull(maxVoices);
    },
    /** Throws voiceNameTaken, voiceSlotsFull, voiceAccountGone. */
    async add(
      account: AccountId,
      { name, description }: { readonly name: string; readonly description: string },
      samples: readonly VoiceSample[],
      blend: VoiceBlend,
    ): Promise<Voice> {
      const sealed = await Promise.all(
        samples.map(async (one) => ({ ...one, bytes: await seal.seal(account, one.bytes) })),
      );
      const voice = { id: randomId<"voice">(20), name, description, blend, samples: sealed };
      const made = await store.add(account, voice, maxVoices);
      if (made === "name_taken") throw voiceNameTaken(name);
      if (made === "full") throw voiceSlotsFull(maxVoices);
      if (made === "gone") throw voiceAccountGone();
      return made;
    },
    /** Throws voiceNotFound, voiceNameTaken. */
    async edit(account: AccountId, id: string, name: string, description: string | undefined): Promise<Voice> {
      if (isPresetVoice(name)) throw voiceNameTaken(name);
      const voice = await store.edit(account, id as VoiceId, { name, description });
      if (voice === "name_taken") throw voiceNameTaken(name);
      if (!voice) throw voiceNotFound();
      return voice;
    },
    /** Throws voiceNotFound. */
    async remove(account: AccountId, id: string): Promise<void> {
      if (!(await store.remove(account, id as VoiceId))) throw voiceNotFound();
    },
    /** The recordings, opened. */
    async samples(account: AccountId, { id }: Voice): Promise<readonly VoiceSample[]> {
      const sealed = await store.samples(account, id);
      return Promise.all(sealed.map(async (one) => ({ ...one, bytes: await seal.open(account, one.bytes) })));
    },
    keepBlend: (account: AccountId, { id }: Voice, blend: VoiceBlend): Promise<void> =>
      store.addBlend(account, id, blend),
  };
}

export type Voices = ReturnType<typeof createVoices>;

function checkSamples(samples: readonly VoiceSample[]): void {
  if (samples.length > maxSamples)
    throw badVoiceSamples(`A voice can have at most ${maxSamples} recordings; ${samples.length} were sent.`);
  if (samples.some(({ bytes }) => bytes.length === 0))
    throw badVoiceSamples("A recording is empty. Send wav, mp3, flac, ogg, m4a or webm files of one speaker.");
}

// Recently used voices of accounts, in memory, so that a speech request with a model's own voice needs no database.
interface VoiceChanges {
  /** Subjects are accounts. */
  on(topic: "voice", handler: (subject: string) => void): void;
}

const maxAccounts = 1000;
/** Form of voice ids: such a name requires the records. */
const idForm = /^[0-9A-Za-z]{20}$/;

export function createVoiceBook(store: Pick<VoiceStore, "voices">, changes: VoiceChanges) {
  /** In order of use. The result of a read that a change overtook is not cached. */
  const known = new Map<string, readonly Voice[]>();
  let readings = 0;
  changes.on("voice", (account) => {
    readings += 1;
    known.delete(account);
  });

  async function read(account: AccountId): Promise<readonly Voice[]> {
    const reading = readings;
    const voices = await store.voices(account);
    if (reading === readings) {
      known.set(account, voices);
      const [oldest] = known.keys();
      if (known.size > maxAccounts && oldest !== undefined) known.delete(oldest);
    }
    return voices;
  }

  return (account: AccountId, named: string): Voice | undefined | Promise<Voice | undefined> => {
    const among = (voices: readonly Voice[]) =>
      voices.find(({ id }) => id === named) ?? voices.find(({ name }) => name === named);
    const cached = known.get(account);
    if (cached) {
      known.delete(account);
      known.set(account, cached);
      return among(cached);
    }
    return read(account).then(among, (error: unknown) => {
      // A model's own voice also works while the database is unavailable.
      if (idForm.test(named)) throw error;
      return undefined;
    });
  };
}
