import { badRequest, conflict, notFound, unavailable } from "../service-error.ts";

export const voiceNotFound = () =>
  notFound("voice_not_found", "Voice not found. `GET /v1/voices` lists the voices you can use.", {
    param: "voice_id",
  });

export const voiceNameTaken = (name: string) =>
  conflict(
    "name_taken",
    `A voice named ${name.slice(0, 100)} already exists in your account or in a model. Choose another name.`,
    { param: "name" },
  );

export const voiceSlotsFull = (limit: number) =>
  conflict("voice_slots_full", `An account can have at most ${limit} voices. Delete one first.`);

export const presetVoiceFixed = () =>
  badRequest("voice_is_preset", "This voice is part of a model and cannot be changed or deleted.", {
    param: "voice_id",
  });

export const badVoiceSamples = (message: string) => badRequest("invalid_samples", message, { param: "files" });

/** No model of the caller supports voices from recordings. */
export const noVoiceModel = (facts: { readonly cause?: unknown } = {}) =>
  unavailable(
    "voice_model_missing",
    "No text-to-speech model is deployed, so recordings cannot be measured. Ask your operator to deploy one, such as " +
      "hexgrad/Kokoro-82M.",
    { retryAfterSeconds: 60, ...facts },
  );

/** A speech model with one voice, or an engine that is not ours. */
export const modelCannotBlend = (model: string) =>
  badRequest(
    "voice_unsupported",
    `The model ${model.slice(0, 100)} does not support voices from recordings. ` +
      "Use a model with several voices, such as hexgrad/Kokoro-82M.",
    { param: "voice" },
  );

export const voiceAccountGone = () => notFound("account_not_found", "This account was deleted.");
