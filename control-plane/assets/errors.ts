import { ServiceError } from "../service-error.ts";

export class VoiceNotFound extends ServiceError {
  readonly code = "voice_not_found";
  constructor() {
    super("There is no voice of this id. `GET /v1/voices` lists the voices you can use.", { param: "voice_id" });
  }
}

export class VoiceNameTaken extends ServiceError {
  readonly code = "name_taken";
  constructor(name: string) {
    super(`You have a voice named ${name.slice(0, 100)} already, or a model comes with one. Choose another name.`, {
      param: "name",
    });
  }
}

export class VoiceSlotsFull extends ServiceError {
  readonly code = "voice_slots_full";
  constructor(most: number) {
    super(`You have ${most} voices, which is as many as an account may keep. Delete one you no longer need.`);
  }
}

export class PresetVoiceFixed extends ServiceError {
  readonly code = "voice_is_preset";
  constructor() {
    super("This voice comes with a model: it cannot be changed or deleted.", { param: "voice_id" });
  }
}

export class BadVoiceSamples extends ServiceError {
  readonly code = "invalid_samples";
  constructor(message: string) {
    super(message, { param: "files" });
  }
}

/** No model that this caller may use can speak in a voice of his own. */
export class NoVoiceModel extends ServiceError {
  readonly code = "voice_model_missing";
  constructor(facts: { readonly cause?: unknown } = {}) {
    super(
      "No text-to-speech model is served here, so recordings cannot be measured. Ask your operator to deploy one, such as " +
        "hexgrad/Kokoro-82M.",
      { retryAfterSeconds: 60, ...facts },
    );
  }
}

/** A speech model with one voice, or an engine that is not ours. */
export class ModelCannotBlend extends ServiceError {
  readonly code = "voice_unsupported";
  constructor(model: string) {
    super(
      `The model ${model.slice(0, 100)} cannot speak in a voice made from recordings: it has no voices of its own to mix. ` +
        "Use a model that has several, such as hexgrad/Kokoro-82M.",
      { param: "voice" },
    );
  }
}

export class VoiceAccountGone extends ServiceError {
  readonly code = "account_not_found";
  constructor() {
    super("This account was deleted.");
  }
}
