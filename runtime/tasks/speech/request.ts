// The fields of a speech request, and what a model cannot do of them: refused with the reason.

import { type AudioFormat, audioFormats } from "../../../proto/audio-formats.ts";
import { isJsonObject } from "../../../proto/json-object.ts";
import { Fields } from "../../server/fields.ts";
import { invalid, RequestError, unusable } from "../../server/request-error.ts";
import type { Manner, Synthesiser } from "./synthesiser.ts";
import { readVoice, type Voice } from "./voice.ts";

export interface SpeechRequest {
  readonly text: string;
  readonly manner: Manner;
  readonly format: AudioFormat;
}

const maxCharacters = 50_000;

type Abilities = Pick<Synthesiser, "presets" | "defaultVoice" | "languages" | "languageOf" | "canBlend">;

/** Throws RequestError. */
export function readSpeech(body: Readonly<Record<string, unknown>>, model: Abilities): SpeechRequest {
  const fields = new Fields(body);
  const text = fields.string("input");
  if (text === undefined || text.trim() === "") throw invalid("input", "input is required: the text to speak");
  if (text.length > maxCharacters)
    throw invalid(
      "input",
      `input has ${text.length} characters and one request speaks ${maxCharacters}; send it in parts`,
    );
  const wanted = fields.string("response_format") ?? "wav";
  const format = audioFormats.find((one) => wanted === one || wanted.startsWith(`${one}_`));
  if (!format) throw invalid("response_format", `response_format must be one of ${audioFormats.join(", ")}`);
  if ((fields.string("stream_format") ?? "audio") !== "audio")
    throw invalid("stream_format", "stream_format must be audio: the sound itself is streamed");
  const speed = fields.number("speed", { min: 0.25, max: 4 }) ?? 1;
  const voice = voiceOf(fields.raw("voice"), model);
  return { text, manner: { voice, language: languageOf(fields, voice, text, model), speed }, format };
}

/** A name, a blend as text, or `{id}` as newer clients send it. */
function voiceOf(value: unknown, model: Abilities): Voice {
  const named = isJsonObject(value) ? value["id"] : value;
  if (named === undefined || named === "") return [{ preset: model.defaultVoice, weight: 1 }];
  if (typeof named !== "string") throw invalid("voice", "voice must be the name of a voice");
  const voice = readVoice(named, model.presets);
  if (!voice) {
    const some = model.presets.slice(0, 8).join(", ");
    const more = model.presets.length > 8 ? ` and ${model.presets.length - 8} more` : "";
    // Clients get this status too, so that the request log has the one that was sent.
    throw new RequestError(404, `there is no voice ${named.slice(0, 80)}; this model has ${some}${more}`, {
      param: "voice",
      code: "voice_not_found",
    });
  }
  if (voice.length > 1 && !model.canBlend)
    throw unusable("voice", "this model has one voice and cannot mix several", "unsupported_value");
  return voice;
}

function languageOf(fields: Fields, voice: Voice, text: string, model: Abilities): string {
  const asked = (fields.string("language") ?? fields.string("language_code"))?.toLowerCase();
  const language = asked === undefined || asked === "" ? model.languageOf(voice) : asked;
  if (!model.languages.includes(language))
    throw unusable(
      "language",
      `this model speaks ${model.languages.join(", ")}, not ${language.slice(0, 20)}`,
      "unsupported_value",
    );
  // Spelled out as "Chinese letter", it would be speech of another text.
  if (/\p{Script=Han}/u.test(text))
    throw unusable(
      "input",
      "this model cannot read Chinese characters, also in Japanese; write the text in another script",
      "unsupported_value",
    );
  return language;
}
