// Speech and transcriptions in OpenAI's format.
import type { FastifyRequest } from "fastify";
import { costUsd } from "../../../proto/money.ts";
import { noUnits } from "../../../proto/usage.ts";
import type { Caller } from "../../accounts/caller.ts";
import type { Spine } from "../../inference/complete.ts";
import type { Trace } from "../../inference/completion.ts";
import { FormFile } from "../body/form-body.ts";
import { mediaLimitBytes } from "../body/json-body.ts";
import type { Endpoints } from "../core/endpoint.ts";
import type { RequestState } from "../core/request-state.ts";
import { fileMissing, transcriptFormatStreams } from "../errors/errors.ts";
import { compatPost, type Relays } from "./relay-route.ts";
import type { Relayed } from "./relayed.ts";
import { SpeechEvents } from "./speech-events.ts";
import type { OwnVoice } from "./tasks/own-voice.ts";
import { charactersOf, speech } from "./tasks/speech.ts";
import { transcription } from "./tasks/transcription.ts";
import {
  AudioBytes,
  SpeechRequest,
  TranscriptionAnswer,
  TranscriptionRequest,
  TranslationRequest,
} from "./tasks-schemas.ts";
import { transcriptEvents } from "./transcript-events.ts";
import { TranslatedStream } from "./translated-stream.ts";

/** Events carry text and no times. */
const streamedFormats: ReadonlySet<string> = new Set(["json", "text"]);

export function addAudioRoutes(
  endpoints: Endpoints,
  { answers }: Pick<Spine, "answers">,
  relays: Relays,
  voices: OwnVoice,
): void {
  endpoints.addInference(
    {
      ...compatPost,
      path: "/v1/compat/audio/speech",
      summary: "Synthesize speech",
      body: SpeechRequest,
      answer: AudioBytes,
    },
    relays.translated((request, state) => {
      const body = request.body as unknown as SpeechRequest;
      const format = body.response_format ?? "wav";
      const { model, input: text, voice, speed, extra_body: extra } = body;
      const characters = charactersOf(text);
      const relayed = (spoken: typeof voice): Relayed => ({
        completion: speech({ model, text, voice: spoken, format, speed, extra }),
        through:
          body.stream_format === "sse"
            ? (client) => new SpeechEvents(client, () => speechUsage(characters, state))
            : undefined,
      });
      const spoken = voice ? voices(state.caller as Caller, model, voice) : voice;
      return spoken instanceof Promise ? spoken.then(relayed) : relayed(spoken);
    }),
  );

  const forms = {
    ...compatPost,
    takes: "forms",
    bodyLimitBytes: mediaLimitBytes,
    answer: TranscriptionAnswer,
  } as const;
  endpoints.addRaw(
    {
      ...forms,
      path: "/v1/compat/audio/transcriptions",
      summary: "Transcribe audio",
      body: TranscriptionRequest,
    },
    relays.task((request, state) => ({
      completion: read(request, "transcribe"),
      through: (request.body as TranscriptionRequest).stream
        ? (client) =>
            new TranslatedStream(
              client,
              transcriptEvents(() => durationUsage(state)),
              answers,
            )
        : undefined,
    })),
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

/** Speech is billed by characters; engines may also report tokens. */
function speechUsage(characters: number, { usage, rates }: RequestState) {
  const [input, output] = [usage?.input ?? 0, usage?.output ?? 0];
  const counts = usage ?? { input, cachedInput: 0, output, units: { ...noUnits, characters } };
  return {
    input_tokens: input,
    output_tokens: output,
    total_tokens: input + output,
    characters,
    estimated_cost: costUsd(counts, rates),
  };
}

/** Transcripts are billed by the duration of their audio. */
export function durationUsage({ usage, rates }: Pick<Trace, "usage" | "rates">) {
  const counts = usage ?? { input: 0, cachedInput: 0, output: 0, units: noUnits };
  return {
    type: "duration",
    seconds: (counts.units?.audioMs ?? 0) / 1000,
    estimated_cost: costUsd(counts, rates),
  };
}

function read(request: FastifyRequest, task: "transcribe" | "translate") {
  const body = request.body as TranscriptionRequest;
  if (!(body.file instanceof FormFile)) throw fileMissing("file");
  const isStream = task === "transcribe" && body.stream === true;
  if (isStream && !streamedFormats.has(body.response_format ?? "json")) throw transcriptFormatStreams();
  return transcription({
    task,
    model: body.model,
    file: body.file,
    prompt: body.prompt,
    // Events have one form.
    format: isStream ? "json" : (body.response_format ?? "json"),
    stream: isStream,
    temperature: body.temperature,
    // A translation is always English and has no granularities.
    ...(task === "transcribe" ? { language: body.language, granularities: body.timestamp_granularities } : {}),
  });
}
