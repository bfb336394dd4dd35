// The fields of a transcription, and what a model cannot do of them: refused with the reason, never replaced in silence.
import { type Body, Fields } from "../../server/fields.ts";
import { invalid, unusable } from "../../server/request-error.ts";
import type { Recogniser } from "./recogniser.ts";
import { type TranscriptForm, transcriptForms } from "./render.ts";
import type { TranscribeAsk } from "./transcribe.ts";

export interface TranscriptionRequest {
  readonly ask: TranscribeAsk;
  readonly form: TranscriptForm;
  /** Only for verbose_json. */
  readonly showsSegments: boolean;
  /** Events, as parts of the text are known. */
  readonly isStream: boolean;
}

type Abilities = Pick<Recogniser, "languages" | "canTranslate" | "hasWordTimes" | "windowSeconds">;

/** `body`: texts of a form. Throws RequestError. */
export function readTranscription(body: Body, task: TranscribeAsk["task"], model: Abilities): TranscriptionRequest {
  const fields = new Fields(body);
  const form = fields.oneOf("response_format", transcriptForms) ?? "json";
  if (task === "translate" && !model.canTranslate)
    throw unusable(
      "model",
      "this model does not translate; use one of several languages, such as whisper-small",
      "unsupported_value",
    );
  const granularities = readGranularities(fields.raw("timestamp_granularities"));
  const wantsWords = granularities.includes("word");
  if (wantsWords && form !== "verbose_json")
    throw invalid("timestamp_granularities", "word timestamps come with response_format verbose_json alone");
  if (wantsWords && !model.hasWordTimes)
    throw unusable(
      "timestamp_granularities",
      "this model's export has no cross-attention outputs, so it cannot time words; request segment timestamps",
      "unsupported_value",
    );
  const isStream = readBoolean(fields, "stream");
  if (isStream && form !== "json" && form !== "text")
    throw invalid("response_format", "response_format must be json or text with stream");
  return {
    ask: {
      task,
      language: readLanguage(fields.string("language"), model),
      prompt: fields.string("prompt"),
      temperature: readNumber(fields, "temperature", 0, 1) ?? 0,
      wantsWords,
      windowSeconds: readNumber(fields, "chunk_length_s", 1, model.windowSeconds) ?? model.windowSeconds,
    },
    form,
    showsSegments: granularities.length === 0 || granularities.includes("segment"),
    isStream,
  };
}

function readGranularities(value: unknown): readonly string[] {
  const list = value === undefined ? [] : [value].flat();
  for (const one of list)
    if (one !== "segment" && one !== "word")
      throw invalid("timestamp_granularities", "timestamp_granularities must be segment, word or both");
  return list as string[];
}

function readLanguage(text: string | undefined, { languages }: Abilities): string | undefined {
  if (text === undefined || text === "") return undefined;
  const language = text.toLowerCase();
  if (languages.includes(language)) return language;
  const known = languages.length === 1 ? `${languages[0]} alone` : `${languages.length} languages, not ${text}`;
  throw unusable(
    "language",
    `this model hears ${known}; leave language out, or use a model that knows ${text}`,
    "unsupported_value",
  );
}

/** A form contains only texts. */
function readBoolean(fields: Fields, name: string): boolean {
  const text = fields.raw(name) ?? "false";
  if (text === "true" || text === "false") return text === "true";
  throw invalid(name, `${name} must be true or false`);
}

function readNumber(fields: Fields, name: string, min: number, max: number): number | undefined {
  const text = fields.raw(name);
  if (text === undefined || text === "") return undefined;
  const value = typeof text === "string" ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw invalid(name, `${name} must be a number of at least ${min} and at most ${max}`);
}
