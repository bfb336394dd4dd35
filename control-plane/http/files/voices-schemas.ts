// Voices in the format of ElevenLabs.
import { type Static, Type } from "typebox";
import type { FormFile } from "../body/form-body.ts";
import { nullable } from "../inference/sampling-schemas.ts";

const shown = {
  user_id: Type.String({ description: "The account, or `preset` for a voice of a model" }),
  voice_id: Type.String(),
  name: Type.String(),
  description: Type.String({ description: "Empty: none" }),
  created_at: Type.Integer({ description: "Unix seconds; 0 for a preset" }),
  updated_at: Type.Integer({ description: "Unix seconds; 0 for a preset" }),
};

const own = {
  kind: Type.Optional(
    Type.String({ description: "`preset`; or `blend`: a blend of a model's voices, not a clone of the speaker" }),
  ),
  measured: Type.Optional(
    Type.Array(
      Type.Object({
        model: Type.String(),
        blend: Type.String(),
        features: Type.Record(Type.String(), Type.Unknown()),
      }),
      { description: "By model: the blend, and the features measured in the recordings" },
    ),
  ),
};

export const VoiceBody = Type.Object({ ...shown, ...own }, { $id: "Voice" });
export const VoiceListBody = Type.Object({ voices: Type.Array(Type.Object({ ...shown, ...own })) });
export const AddedVoiceBody = Type.Object({ ...shown, ...own, requires_verification: Type.Boolean() });
export const EditedVoiceBody = Type.Object({ ...shown, ...own, status: Type.Literal("ok") });

const name = Type.String({ minLength: 1, maxLength: 100, pattern: "^[^\\u0000]*$" });
const description = Type.Optional(
  nullable.string({ maxLength: 1000, pattern: "^[^\\u0000]*$", description: "Default: empty" }),
);

const recordings = (title: string) =>
  Type.Optional(
    Type.Unsafe<FormFile | string | readonly (FormFile | string)[]>({
      contentMediaType: "application/octet-stream",
      description: title,
    }),
  );

export const AddVoiceForm = Type.Object({
  name,
  description,
  files: recordings("Up to 25 recordings of one speaker: wav, mp3, flac, ogg, m4a or webm; the part may be repeated"),
  audio: recordings("Alternative name of `files`"),
});
export type AddVoiceForm = Static<typeof AddVoiceForm>;

export const EditVoiceForm = Type.Object({ name, description });
