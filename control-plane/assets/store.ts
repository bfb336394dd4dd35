// Where the voices of accounts are kept. Every method takes the account: a voice of another one is not there.
import type { AccountId, Id } from "../../proto/ids.ts";

export type VoiceId = Id<"voice">;

/** A mixture of a model's own voices that stands for a speaker. */
export interface VoiceBlend {
  /** Public name of the model that measured the recordings. */
  readonly model: string;
  /** What a speech request to that model names. */
  readonly blend: string;
  /** What was measured, in the model server's words. */
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
  /** `full`: the account has `most` voices. `gone`: the account was deleted meanwhile. */
  add(account: AccountId, voice: NewVoice, most: number): Promise<Voice | "name_taken" | "full" | "gone">;
  /** Nothing where there is no such voice any more. */
  addBlend(account: AccountId, id: VoiceId, blend: VoiceBlend): Promise<void>;
  edit(
    account: AccountId,
    id: VoiceId,
    change: { readonly name: string; readonly description: string | undefined },
  ): Promise<Voice | "name_taken" | undefined>;
  /** False: there was none. */
  remove(account: AccountId, id: VoiceId): Promise<boolean>;
}
