import type { TSchema } from "typebox";
import type { Spine } from "../../inference/complete.ts";
import type { SocketRoute } from "../sockets/socket-route.ts";
import type { InferenceFeatures } from "./features.ts";
import type { Validate } from "./inference-entry.ts";
import { realtimeRoute } from "./realtime/realtime-route.ts";
import { streamInputRoute } from "./stream-input/stream-input-route.ts";
import { ownVoice } from "./tasks/own-voice.ts";

/** WebSockets for inference. */
export function socketRoutes(
  spine: Spine,
  features: Pick<InferenceFeatures, "voices" | "speechModel">,
  compile: (schema: TSchema) => Validate,
): readonly SocketRoute[] {
  return [
    realtimeRoute(compile),
    streamInputRoute(spine, ownVoice(spine, features.voices), features.speechModel, compile),
  ];
}
