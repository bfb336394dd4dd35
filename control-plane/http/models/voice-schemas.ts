// The requests and answers of voices, as the interface's section 13.3 has them.
import { Type } from "typebox";
import { File } from "../schemas/tasks.ts";

const described = { name: Type.String(), description: Type.String() };

export const NamedVoice = Type.Object({ voice_id: Type.String({ description: "Of the path" }) });
export const NewVoice = Type.Object({ ...described, files: File("A sample; the part may come again") });
export const ChangedVoice = Type.Object({ voice_id: Type.String({ description: "Of the path" }), ...described });

const voice = {
  user_id: Type.String(),
  voice_id: Type.String(),
  name: Type.String(),
  description: Type.String(),
  created_at: Type.Integer({ description: "Unix seconds" }),
  updated_at: Type.Integer({ description: "Unix seconds" }),
};
export const Voice = Type.Object(voice);
export const AddedVoice = Type.Object({ ...voice, requires_verification: Type.Boolean() });
export const EditedVoice = Type.Object({ ...voice, status: Type.String() });
export const Voices = Type.Object({ voices: Type.Array(Voice) });
export const Ended = Type.Object({ status: Type.Literal("ok") });
