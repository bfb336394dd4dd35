import { type Completion, taskCompletion } from "../../inference/completion.ts";
import { exactly } from "../../inference/task.ts";
import { audioFormats } from "../schemas/tasks.ts";
import { jsonBody } from "./json-task.ts";

export interface SpeechWish {
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

export function speech(wish: SpeechWish): Completion {
  return taskCompletion("text_to_speech", wish.model, {
    enginePath: "/v1/audio/speech",
    inputTokensBound: 0,
    inputTokensEstimate: 0,
    units: () => exactly({ characters: charactersOf(wish.text) }),
    body: jsonBody({
      ...extraOf(wish.extra),
      input: wish.text,
      voice: wish.voice,
      response_format: wish.format,
      speed: wish.speed,
      language: wish.language?.toLowerCase(),
    }),
  });
}

/** What decides how it is answered and what it costs is not the engine's alone. */
const ours: ReadonlySet<string> = new Set(["model", "input", "stream", "stream_format", "response_format"]);
const extraOf = (extra: SpeechWish["extra"]) =>
  Object.fromEntries(Object.entries(extra ?? {}).filter(([key]) => !ours.has(key)));

/** As people count them: a character beyond the first plane is one. */
export function charactersOf(text: string): number {
  let n = 0;
  for (const _ of text) n += 1;
  return n;
}

/** Also codes such as `mp3_44100_128`, by what they begin with. Undefined: no such format. */
export function speechFormat(code: string): string | undefined {
  return audioFormats.find((format) => code === format || code.startsWith(`${format}_`));
}
