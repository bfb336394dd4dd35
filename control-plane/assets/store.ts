// Storage of accounts' voices. Every method takes the account: voices of other accounts are not visible.
import type { AccountId, Id } from "../../proto/ids.ts";

export type VoiceId = Id<"voice">;

/** A mixture of a model's own voices in place of a speaker. */
export interface VoiceBlend {
  /** Public name of the model that measured the recordings. */
  readonly model: string;
  /** Voice name for speech requests to that model. */
  readonly blend: string;
  /** Measurement, as returned by the model server. */
  readonly measured: Readonly<Record<string, unknown>>;
}

export interface Voice {
  readonly id: VoiceId;
  readonly name: string;
  readonly description: string;
  /** By model. */
  readonly blends: readonly VoiceBlend[];
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
}

/** A recording of the speaker. */
export interface VoiceSample {
  readonly contentType: string;
  readonly bytes: Buffer;
}

export interface NewVoice {
  readonly id: VoiceId;
  readonly name: string;
  readonly description: string;
  readonly blend: VoiceBlend;
  /** Sealed. */
  readonly samples: readonly VoiceSample[];
}

export interface VoiceStore {
  /** Oldest first. */
  voices(account: AccountId): Promise<readonly Voice[]>;
  /** Sealed; empty where there is no such voice. */
  samples(account: AccountId, id: VoiceId): Promise<readonly VoiceSample[]>;
  /** `full`: the account has `maxVoices` voices. `gone`: the account was deleted. */
  add(account: AccountId, voice: NewVoice, maxVoices: number): Promise<Voice | "name_taken" | "full" | "gone">;
  /** No effect when the voice is gone. */
  addBlend(account: AccountId, id: VoiceId, blend: VoiceBlend): Promise<void>;
  edit(
    account: AccountId,
    id: VoiceId,
    change: { readonly name: string; readonly description: string | undefined },
  ): Promise<Voice | "name_taken" | undefined>;
  /** Returns false when there was none. */
  remove(account: AccountId, id: VoiceId): Promise<boolean>;
}
