import type { Spine } from "../../inference/complete.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { addAudioRoutes } from "./audio-routes.ts";
import { addCompletionRoutes } from "./completions-routes.ts";
import { addEmbeddingRoutes } from "./embeddings-routes.ts";
import type { InferenceFeatures } from "./features.ts";
import { addImageRoutes } from "./images-routes.ts";
import { addMessageRoutes } from "./messages/messages-routes.ts";
import { addNativeRoutes } from "./native-routes.ts";
import { addRankingRoutes } from "./ranking-routes.ts";
import { createRelays } from "./relay-route.ts";
import { addResponseRoutes } from "./responses/responses-routes.ts";
import { ownVoice } from "./tasks/own-voice.ts";
import { addTextToSpeechRoutes } from "./text-to-speech-routes.ts";

export function addInference(endpoints: Endpoints, spine: Spine, features: InferenceFeatures): void {
  const relays = createRelays(spine, features);
  const voices = ownVoice(spine, features.voices);
  addCompletionRoutes(endpoints, relays);
  addResponseRoutes(endpoints, spine, relays, features);
  addEmbeddingRoutes(endpoints, relays);
  addAudioRoutes(endpoints, spine, relays, voices);
  addImageRoutes(endpoints, relays);
  addTextToSpeechRoutes(endpoints, spine, relays, voices, features.speechModel);
  addMessageRoutes(endpoints, spine, relays, features.reasoning);
  addRankingRoutes(endpoints, spine, relays, features.moderationModel);
  addNativeRoutes(endpoints, spine, relays, voices, features);
}
