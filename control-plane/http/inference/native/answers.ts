// Converts an engine's response from OpenAI's format to that of native inference. Pure; throws on any other format.

import { scoresOf } from "../../../../proto/engine-scores.ts";
import type { Trace } from "../../../inference/completion.ts";
import type { WholeAnswer } from "../buffered-sink.ts";
import { wholeWav } from "../whole-wav.ts";
import { dataUri } from "./media.ts";

export type EngineFields = Readonly<Record<string, unknown>>;
export type RenderNative = (answer: WholeAnswer, trace: Trace) => object;

/** Applies `render` to the parsed response. */
export const ofJson =
  (render: (fields: EngineFields, trace: Trace) => object): RenderNative =>
  ({ body }, trace) =>
    render(JSON.parse(body.toString()) as EngineFields, trace);

const list = (value: unknown): readonly EngineFields[] => {
  if (!Array.isArray(value)) throw new TypeError("the engine's answer has no list");
  return value;
};

export const textAnswer = ofJson(({ choices }, { usage }) => ({
  results: list(choices).map(({ text }) => ({ generated_text: text })),
  num_tokens: usage?.output ?? null,
  num_input_tokens: usage?.input ?? null,
}));

export const embeddingsAnswer = ofJson(({ data }, { usage }) => ({
  embeddings: list(data).map(({ embedding }) => embedding),
  input_tokens: usage?.input ?? 0,
}));

/** Scores in the order of the `count` documents. */
export const rerankAnswer = (count: number) =>
  ofJson((fields, { usage }) => ({
    scores: scoresOf(fields, count),
    input_tokens: usage?.input ?? 0,
  }));

export const transcriptionAnswer = ofJson(({ text, segments = [], language, words = [], duration }) => ({
  text,
  segments,
  language: languageCode(language),
  input_length_ms: Math.round(Number(duration ?? 0) * 1000),
  words: list(words).map(({ word, text: said = word, ...rest }) => ({ ...rest, text: said })),
  duration: Number(duration ?? 0),
}));

/** ISO 639 codes by the English names that the compat surface reports, lower case. Two letters, and two that Whisper adds. */
const languageCodes = new Map<string, string>();
function namedLanguages(): ReadonlyMap<string, string> {
  if (languageCodes.size > 0) return languageCodes;
  const names = new Intl.DisplayNames(["en"], { type: "language", fallback: "none" });
  const letters = [..."abcdefghijklmnopqrstuvwxyz"];
  for (const code of [...letters.flatMap((first) => letters.map((second) => first + second)), "haw", "yue"]) {
    const name = names.of(code)?.toLowerCase();
    // Old codes (iw, in) share a name with the current one, which is the canonical form.
    if (name !== undefined && Intl.getCanonicalLocales(code)[0] === code) languageCodes.set(name, code);
  }
  return languageCodes;
}

/** Returns the ISO code of a language that an engine reports by code or by English name; null where it reports neither. */
function languageCode(reported: unknown): string | null {
  if (typeof reported !== "string" || reported === "") return null;
  const name = reported.toLowerCase();
  return namedLanguages().get(name) ?? (/^[a-z]{2,3}$/.test(name) ? name : null);
}

export const speechAnswer =
  (characters: number, format: string): RenderNative =>
  (answer) => ({
    audio: dataUri(answer.contentType, wholeWav(answer).body),
    input_character_length: characters,
    output_format: format,
    words: [],
  });

export const imagesAnswer = (seed: unknown) =>
  ofJson((fields) => {
    const pictures = list(fields["data"]);
    return {
      images: pictures.map(({ b64_json }) => `data:image/png;base64,${String(b64_json)}`),
      nsfw_content_detected: pictures.map(() => false),
      seed: fields["seed"] ?? seed ?? null,
    };
  });

/** Response of our own runtime for every other task, without its usage. */
export const ownAnswer = ofJson(({ usage: _, ...fields }) => fields);
