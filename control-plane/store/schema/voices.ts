import type { DefaultTime, Json } from "./columns.ts";

export interface VoicesTables {
  voice: {
    voice_id: string;
    account_id: string;
    name: string;
    description: string;
    created_at: DefaultTime;
    updated_at: DefaultTime;
  };
  /** What the speaker was recorded with: measured again for a model that has not measured it yet. */
  voice_sample: {
    voice_id: string;
    account_id: string;
    /** 0, 1, ... as they were sent. */
    place: number;
    content_type: string;
    /** Under the account's data key. */
    sealed: Buffer;
  };
  voice_blend: {
    voice_id: string;
    account_id: string;
    /** Public name of the model that measured the recordings. */
    model: string;
    /** What a speech request names there, such as `af_heart:0.7,am_adam:0.3`. */
    blend: string;
    /** What the model server measured. */
    measured: Json<Readonly<Record<string, unknown>>>;
    made_at: DefaultTime;
  };
}
