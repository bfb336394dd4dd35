// Speech in the format of ElevenLabs: the voice in the path, an audio response, errors in `detail`.
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { Caller } from "../../accounts/caller.ts";
import type { Spine } from "../../inference/complete.ts";
import type { Endpoints } from "../core/endpoint.ts";
import type { RequestState } from "../core/request-state.ts";
import { inferenceRefusals } from "../errors/error-responses.ts";
import { speechFormatUnknown } from "../errors/errors.ts";
import { BufferedSink } from "./buffered-sink.ts";
import type { Relays } from "./relay-route.ts";
import type { Relayed } from "./relayed.ts";
import { nullable } from "./sampling-schemas.ts";
import type { OwnVoice } from "./tasks/own-voice.ts";
import { charactersOf, speech, speechFormat } from "./tasks/speech.ts";
import { speechModel } from "./tasks/speech-model.ts";
import { AudioBytes, TextToSpeechRequest } from "./tasks-schemas.ts";
import { wholeWav } from "./whole-wav.ts";

export function addTextToSpeechRoutes(
  endpoints: Endpoints,
  spine: Spine,
  relays: Relays,
  voices: OwnVoice,
  chosenModel: string | undefined,
): void {
  const read = readWith(spine, voices, chosenModel);
  const common = {
    method: "POST",
    tag: "inference",
    access: "inference",
    dialect: "voices",
    idempotent: true,
    refusals: inferenceRefusals,
    params: Type.Object({ voice_id: Type.String({ minLength: 1 }) }),
    query: Type.Object({ output_format: Type.Optional(nullable.string()) }),
    body: TextToSpeechRequest,
    answer: AudioBytes,
  } as const;
  endpoints.addRaw(
    { ...common, path: "/v1/text-to-speech/:voice_id/stream", summary: "Synthesize speech, streamed" },
    relays.task(read),
  );
  endpoints.addRaw(
    { ...common, path: "/v1/text-to-speech/:voice_id", summary: "Synthesize speech" },
    relays.task(async (request, state) => ({
      ...(await read(request, state)),
      through: (client) => new BufferedSink(client, spine.answers, wholeWav),
    })),
  );
}

const readWith =
  (spine: Spine, voices: OwnVoice, chosenModel: string | undefined) =>
  ({ body, params, query }: FastifyRequest, state: RequestState): Relayed | Promise<Relayed> => {
    const { text, model_id: model, output_format: format, language_code: language } = body as TextToSpeechRequest;
    const { voice_id: voice } = params as { readonly voice_id: string };
    const requested = (query as { readonly output_format?: string | null }).output_format;
    const code = requested || format || "wav";
    const known = speechFormat(code);
    if (!known) throw speechFormatUnknown(code, code === requested ? "query" : "body");
    state.extraHeaders = ["request-id", state.requestId, "character-cost", String(charactersOf(text))];
    const caller = state.caller as Caller;
    const speaker = model ?? speechModel(spine.models, caller, chosenModel, voice);
    const relayed = (spoken: string): Relayed => ({
      completion: speech({ model: speaker, text, voice: spoken, format: known, language }),
    });
    const spoken = voices(caller, speaker, voice);
    return spoken instanceof Promise ? spoken.then(relayed) : relayed(spoken);
  };
