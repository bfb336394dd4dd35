// Speech and transcriptions in OpenAI's format.
import type { FastifyRequest } from "fastify";
import { FormFile } from "../body/form-body.ts";
import { mediaLimitBytes } from "../body/json-body.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { inferenceRefusals } from "../errors/error-responses.ts";
import { fileMissing } from "../errors/errors.ts";
import type { Relays } from "./relay-route.ts";
import type { OwnVoice } from "./tasks/own-voice.ts";
import { speech } from "./tasks/speech.ts";
import { transcription } from "./tasks/transcription.ts";
import {
  AudioBytes,
  SpeechRequest,
  TranscriptionAnswer,
  TranscriptionRequest,
  TranslationRequest,
} from "./tasks-schemas.ts";

const common = {
  method: "POST",
  tag: "inference",
  access: "inference",
  dialect: "compat",
  idempotent: true,
  refusals: inferenceRefusals,
} as const;

export function addAudioRoutes(endpoints: Endpoints, relays: Relays, voices: OwnVoice): void {
  endpoints.addInference(
    {
      ...common,
      path: "/v1/compat/audio/speech",
      summary: "Synthesize speech",
      body: SpeechRequest,
      answer: AudioBytes,
    },
    relays.json((fields, _read, caller) => {
      const body = fields as unknown as SpeechRequest;
      const format = body.response_format ?? "wav";
      const { model, input: text, voice, speed, extra_body: extra } = body;
      const completion = (spoken: typeof voice) => speech({ model, text, voice: spoken, format, speed, extra });
      const spoken = voice ? voices(caller, model, voice) : voice;
      return spoken instanceof Promise ? spoken.then(completion) : completion(spoken);
    }),
  );

  const forms = { ...common, takes: "forms", bodyLimitBytes: mediaLimitBytes, answer: TranscriptionAnswer } as const;
  endpoints.addRaw(
    {
      ...forms,
      path: "/v1/compat/audio/transcriptions",
      summary: "Transcribe audio",
      body: TranscriptionRequest,
    },
    relays.task((request) => ({ completion: read(request, "transcribe") })),
  );
  endpoints.addRaw(
    {
      ...forms,
      path: "/v1/compat/audio/translations",
      summary: "Translate audio to English text",
      body: TranslationRequest,
    },
    relays.task((request) => ({ completion: read(request, "translate") })),
  );
}

function read(request: FastifyRequest, task: "transcribe" | "translate") {
  const body = request.body as TranscriptionRequest;
  if (!(body.file instanceof FormFile)) throw fileMissing("file");
  return transcription({
    task,
    model: body.model,
    file: body.file,
    prompt: body.prompt,
    format: body.response_format ?? "json",
    temperature: body.temperature,
    // A translation is always English and has no granularities.
    ...(task === "transcribe" ? { language: body.language, granularities: body.timestamp_granularities } : {}),
  });
}
