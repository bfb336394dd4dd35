import type { Voices } from "../../assets/voices.ts";
import type { Webhooks } from "../../webhooks/webhooks.ts";
import type { OnceDeps } from "./idempotency.ts";

export interface InferenceFeatures extends OnceDeps {
  readonly voices: Voices;
  readonly speechModel: string | undefined;
  readonly webhooks: Webhooks;
  readonly publicUrl: string | undefined;
}
