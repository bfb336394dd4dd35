// Voices made from recordings, and preset voices of the served models. Shapes and errors as ElevenLabs'.

import { Type } from "typebox";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import type { Caller } from "../../accounts/caller.ts";
import { noVoiceModel, presetVoiceFixed } from "../../assets/errors.ts";
import { isPresetVoice, type PresetVoice, presetVoicesOf } from "../../assets/preset-voices.ts";
import type { Voice, VoiceBlend, VoiceSample } from "../../assets/store.ts";
import type { ModelDirectory } from "../../catalog/served-model.ts";
import type { Spine } from "../../inference/complete.ts";
import { ModelNotFound } from "../../inference/errors.ts";
import { FormFile } from "../body/form-body.ts";
import { bodyLimitBytes, mediumBodyBytes } from "../body/json-body.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { inferenceRefusals } from "../errors/error-responses.ts";
import { fileMissing } from "../errors/errors.ts";
import { measureVoice } from "../inference/tasks/measure-voice.ts";
import { speechModel } from "../inference/tasks/speech-model.ts";
import type { FileFeatures } from "./features.ts";
import {
  AddedVoiceBody,
  AddVoiceForm,
  EditedVoiceBody,
  EditVoiceForm,
  VoiceBody,
  VoiceListBody,
} from "./voices-schemas.ts";

const params = Type.Object({ voice_id: Type.String({ minLength: 1 }) });

export function addVoiceRoutes(
  endpoints: Endpoints,
  spine: Spine,
  { voices, speechModel: chosen }: FileFeatures,
): void {
  const own = endpoints.with({ tag: "voices", access: "key", dialect: "voices" });
  const { models } = spine;

  own.get("/v1/voices", {
    isOpenToOperators: true,
    summary: "List the account's voices and the preset voices of served models",
    answer: VoiceListBody,
    handler: async ({ caller }) => {
      const own = (await voices.list(caller.account)).map((voice) => rendered(caller, voice));
      return { voices: [...own, ...presets(models, caller).map(renderedPreset)] };
    },
  });

  own.post("/v1/voices/add", {
    summary: "Create a voice from recordings of a speaker: a blend of a model's voices, not a clone",
    takes: "forms",
    idempotent: true,
    bodyLimitBytes,
    body: AddVoiceForm,
    answer: AddedVoiceBody,
    refusals: inferenceRefusals,
    async handler({ caller, body }) {
      const samples = samplesOf(body);
      await voices.mayAdd(caller.account, body.name, samples);
      const blend = await measured(spine, caller, chosen, samples);
      const request = { name: body.name, description: body.description ?? "" };
      const voice = await voices.add(caller.account, request, samples, blend);
      return { ...rendered(caller, voice), requires_verification: false };
    },
  });

  own.get("/v1/voices/:voice_id", {
    summary: "Get a voice",
    params,
    answer: VoiceBody,
    refusals: [404],
    handler: async ({ caller, params: { voice_id: id } }) => {
      const preset = presets(models, caller).find(({ name }) => name === id);
      return preset ? renderedPreset(preset) : rendered(caller, await voices.get(caller.account, id));
    },
  });

  own.post("/v1/voices/:voice_id/edit", {
    summary: "Change name or description of a voice",
    takes: "forms",
    params,
    bodyLimitBytes: mediumBodyBytes,
    body: EditVoiceForm,
    answer: EditedVoiceBody,
    refusals: [400, 404, 409, 413],
    async handler({ caller, params: { voice_id: id }, body: { name, description } }) {
      if (isPresetVoice(id)) throw presetVoiceFixed();
      const voice = await voices.edit(caller.account, id, name, description ?? undefined);
      return { ...rendered(caller, voice), status: "ok" };
    },
  });

  own.delete("/v1/voices/:voice_id", {
    summary: "Delete a voice and its recordings",
    params,
    answer: Type.Object({ status: Type.Literal("ok") }),
    refusals: [400, 404],
    async handler({ caller, params: { voice_id: id } }) {
      if (isPresetVoice(id)) throw presetVoiceFixed();
      await voices.remove(caller.account, id);
      return { status: "ok" };
    },
  });
}

async function measured(
  spine: Spine,
  caller: Caller,
  chosen: string | undefined,
  samples: readonly VoiceSample[],
): Promise<VoiceBlend> {
  try {
    return await measureVoice(spine, caller, speechModel(spine.models, caller, chosen), samples);
  } catch (error) {
    throw error instanceof ModelNotFound ? noVoiceModel({ cause: error }) : error;
  }
}

function samplesOf({ files, audio }: AddVoiceForm): readonly VoiceSample[] {
  const parts = [files, audio].flatMap((part) => part ?? []);
  if (parts.length === 0) throw fileMissing("files");
  return parts.map((part) => {
    if (!(part instanceof FormFile)) throw fileMissing("files");
    return { contentType: part.contentType, bytes: part.bytes };
  });
}

const presets = (models: ModelDirectory, { account }: Caller): readonly PresetVoice[] =>
  presetVoicesOf(
    models
      .list(account)
      .filter(({ task, engine }) => task === "text-to-speech" && engine === "stoker")
      .map(({ name }) => name),
  );

const renderedPreset = ({ name, description }: PresetVoice) => ({
  user_id: "preset",
  voice_id: name,
  name,
  description,
  created_at: 0,
  updated_at: 0,
  kind: "preset",
});

const rendered = ({ account }: Caller, { id, name, description, blends, createdAtMs, updatedAtMs }: Voice) => ({
  user_id: account,
  voice_id: id,
  name,
  description,
  created_at: unixSeconds(createdAtMs),
  updated_at: unixSeconds(updatedAtMs),
  kind: "blend",
  measured: blends.map(({ model, blend, measured: features }) => ({ model, blend, features })),
});
