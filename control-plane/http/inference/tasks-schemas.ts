// Requests and responses of embeddings, speech, transcriptions and images, with the bounds of the interface.
import { type Static, Type } from "typebox";
import { audioFormats } from "../../../proto/audio-formats.ts";
import type { FormFile } from "../body/form-body.ts";
import { ModelName as model, nullable } from "./sampling-schemas.ts";

const serviceTier = Type.Optional(nullable.string());
const user = Type.Optional(nullable.string());

/** A part with a filename. */
export const File = (description: string) =>
  Type.Unsafe<FormFile>({ contentMediaType: "application/octet-stream", description });

export const maxInputs = 1024;

const tokenIds = { type: "array", minItems: 1, items: { type: "integer", minimum: 0 } };

export const EmbeddingsRequest = Type.Object({
  model,
  input: Type.Unsafe<string | readonly (string | number | readonly number[])[]>({
    description: "A text, up to 1024 texts, token ids, or up to 1024 lists of token ids",
    anyOf: [
      { type: "string", minLength: 1 },
      { type: "array", minItems: 1, maxItems: maxInputs, items: { type: "string", minLength: 1 } },
      tokenIds,
      { type: "array", minItems: 1, maxItems: maxInputs, items: tokenIds },
    ],
  }),
  encoding_format: Type.Optional(nullable.string({ enum: ["float", "base64", null], default: "float" })),
  dimensions: Type.Optional(nullable.integer({ minimum: 32 })),
  input_type: Type.Optional(nullable.string({ enum: ["query", "passage", "document", null] })),
  service_tier: serviceTier,
  user,
});
export type EmbeddingsRequest = Static<typeof EmbeddingsRequest>;

export const EmbeddingsAnswer = Type.Object({
  object: Type.Literal("list"),
  data: Type.Array(
    Type.Object({
      object: Type.Literal("embedding"),
      index: Type.Integer(),
      embedding: Type.Unsafe<unknown>({ anyOf: [{ type: "array", items: { type: "number" } }, { type: "string" }] }),
    }),
  ),
  model: Type.String(),
  usage: Type.Object({
    prompt_tokens: Type.Integer(),
    total_tokens: Type.Integer(),
    estimated_cost: Type.Optional(Type.Number({ description: "USD" })),
  }),
});

/** Maximum text of one speech request: some minutes of audio. */
export const maxCharacters = 100_000;
const spokenText = Type.String({ minLength: 1, maxLength: maxCharacters });

export const SpeechRequest = Type.Object({
  model,
  input: spokenText,
  voice: Type.Optional(nullable.string()),
  response_format: Type.Optional(nullable.string({ enum: [...audioFormats, null], default: "wav" })),
  speed: Type.Optional(nullable.number({ minimum: 0.25, maximum: 4, default: 1 })),
  stream_format: Type.Optional(
    nullable.string({ enum: ["audio", "sse", null], default: "audio", description: "sse: events with base64 audio" }),
  ),
  extra_body: Type.Optional(nullable.object()),
  service_tier: serviceTier,
});
export type SpeechRequest = Static<typeof SpeechRequest>;

export const TextToSpeechRequest = Type.Object({
  text: spokenText,
  model_id: Type.Optional(
    nullable.string({ description: "Default: the installation's speech model, a Kokoro-82M where one is served" }),
  ),
  output_format: Type.Optional(nullable.string({ description: `${audioFormats.join(", ")}; also as mp3_44100_128` })),
  language_code: Type.Optional(nullable.string({ pattern: "^[A-Za-z]{2}$", description: "ISO 639-1" })),
});
export type TextToSpeechRequest = Static<typeof TextToSpeechRequest>;

const transcribed = {
  file: File("flac, mp3, mp4, mpeg, mpga, m4a, ogg, wav or webm"),
  model,
  prompt: Type.Optional(nullable.string()),
  response_format: Type.Optional(
    nullable.string({ enum: ["json", "verbose_json", "text", "srt", "vtt", null], default: "json" }),
  ),
  temperature: Type.Optional(nullable.number({ minimum: 0, maximum: 1, default: 0 })),
};

export const TranslationRequest = Type.Object(transcribed);
export const TranscriptionRequest = Type.Object({
  ...transcribed,
  language: Type.Optional(nullable.string({ description: "ISO 639-1" })),
  timestamp_granularities: Type.Optional(nullable.array(Type.Unsafe({ type: "string", enum: ["segment", "word"] }))),
  stream: Type.Optional(
    nullable.boolean({ default: false, description: "Events with the text of each part; only with json and text" }),
  ),
});
export type TranscriptionRequest = Static<typeof TranscriptionRequest>;

export const TranscriptionAnswer = Type.Object(
  { text: Type.String() },
  {
    description: "With verbose_json also task, language, duration, segments, words; text, srt and vtt are plain bodies",
  },
);

const imageFields = {
  n: Type.Optional(nullable.integer({ minimum: 1, maximum: 4, default: 1 })),
  size: Type.Optional(nullable.string({ pattern: "^[1-9]\\d{1,3}x[1-9]\\d{1,3}$", default: "1024x1024" })),
  response_format: Type.Optional(nullable.string({ enum: ["b64_json", null], default: "b64_json" })),
  user,
};

export const ImageRequest = Type.Object({
  model,
  prompt: Type.String(),
  ...imageFields,
  quality: Type.Optional(nullable.string()),
  style: Type.Optional(nullable.string()),
});
export type ImageRequest = Static<typeof ImageRequest>;

export const ImageVariationRequest = Type.Object({ image: File("An image"), model, ...imageFields });
export const ImageEditRequest = Type.Object({
  image: Type.Unsafe<FormFile | readonly FormFile[]>({
    contentMediaType: "application/octet-stream",
    description: "An image; the part may be repeated",
  }),
  prompt: Type.String(),
  model,
  mask: Type.Optional(File("PNG under 4 MB, of the image's size; transparent areas are edited")),
  ...imageFields,
});
export type ImageEditRequest = Static<typeof ImageEditRequest>;

export const ImagesAnswer = Type.Object({
  created: Type.Integer({ description: "Unix seconds" }),
  data: Type.Array(
    Type.Object({
      b64_json: Type.Optional(Type.String()),
      revised_prompt: Type.Optional(nullable.string()),
      url: Type.Optional(nullable.string({ description: "null: images are sent in the reply and not stored" })),
    }),
  ),
});

/** Audio in the requested format. */
export const AudioBytes = Type.Unsafe<unknown>({ contentMediaType: "audio/wav", description: "Audio" });
