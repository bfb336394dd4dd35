import { audioFormats } from "../../../../proto/audio-formats.ts";
import { type Completion, taskCompletion } from "../../../inference/completion.ts";
import { exactly } from "../../../inference/task.ts";
import { jsonBody } from "./json-task.ts";

export interface SpeechParams {
  readonly model: string;
  readonly text: string;
  readonly voice?: unknown;
  readonly format: string;
  readonly speed?: number | null | undefined;
  /** ISO 639-1. */
  readonly language?: string | null | undefined;
  /** Further fields for the engine. */
  readonly extra?: Readonly<Record<string, unknown>> | null | undefined;
}

export function speech(request: SpeechParams): Completion {
  return taskCompletion("text_to_speech", request.model, {
    enginePath: "/v1/audio/speech",
    inputTokensBound: 0,
    inputTokensEstimate: 0,
    units: () => exactly({ characters: charactersOf(request.text) }),
    body: jsonBody({
      ...extraOf(request.extra),
      input: request.text,
      voice: request.voice,
      response_format: request.format,
      speed: request.speed,
      language: request.language?.toLowerCase(),
    }),
  });
}

/** Fields that decide the price or the form of the response; `extra` must not set them. */
const reserved: ReadonlySet<string> = new Set(["model", "input", "stream", "stream_format", "response_format"]);
const extraOf = (extra: SpeechParams["extra"]) =>
  Object.fromEntries(Object.entries(extra ?? {}).filter(([key]) => !reserved.has(key)));

/** Number of Unicode code points. */
export function charactersOf(text: string): number {
  let n = 0;
  for (const _ of text) n += 1;
  return n;
}

/** Format of a code such as `mp3` or `mp3_44100_128`; undefined if unknown. */
export function speechFormat(code: string): string | undefined {
  return audioFormats.find((format) => code === format || code.startsWith(`${format}_`));
}
