// Responses of native inference, by task, and one event of its stream.
import { type TSchema, Type } from "typebox";
import { NativeAnswer } from "./native-schemas.ts";
import { nullable } from "./sampling-schemas.ts";

type Fields = Readonly<Record<string, TSchema>>;

const results = (fields: Fields): Fields => ({ results: Type.Array(Type.Object(fields)) });
const score = Type.Number();
const labelled: Fields = { label: Type.String(), score };
const box = Type.Object({ xmin: Type.Number(), ymin: Type.Number(), xmax: Type.Number(), ymax: Type.Number() });
const span: Fields = { start: Type.Number(), end: Type.Number(), text: Type.String() };

const text: Fields = {
  ...results({ generated_text: Type.String() }),
  num_tokens: nullable.integer(),
  num_input_tokens: nullable.integer(),
};
const vectors: Fields = { embeddings: Type.Array(Type.Array(Type.Number())), input_tokens: Type.Integer() };
const rerank: Fields = { scores: Type.Array(Type.Number()), input_tokens: Type.Integer() };

const byTask: Readonly<Record<string, Fields>> = {
  "text-generation": text,
  "text2text-generation": text,
  embeddings: vectors,
  "sentence-similarity": vectors,
  "feature-extraction": vectors,
  reranker: rerank,
  "text-ranking": rerank,
  "automatic-speech-recognition": {
    text: Type.String(),
    segments: Type.Array(Type.Object(span)),
    language: nullable.string({ description: "ISO 639 code; null: unknown" }),
    input_length_ms: Type.Integer(),
    words: Type.Array(Type.Object(span)),
    duration: Type.Number({ description: "Seconds" }),
  },
  "text-to-speech": {
    audio: Type.String({ pattern: "^data:audio/", description: "A data URI" }),
    input_character_length: Type.Integer(),
    output_format: Type.String(),
    words: Type.Array(Type.Object(span)),
  },
  "text-to-image": {
    images: Type.Array(Type.String({ pattern: "^data:image/" }), { description: "Data URIs" }),
    nsfw_content_detected: Type.Array(Type.Boolean()),
    seed: nullable.integer(),
  },
  "text-classification": results(labelled),
  "zero-shot-classification": results(labelled),
  "token-classification": results({
    entity_group: Type.String(),
    score,
    word: Type.String(),
    start: Type.Integer(),
    end: Type.Integer(),
  }),
  "fill-mask": results({ sequence: Type.String(), score, token: Type.Integer(), token_str: Type.String() }),
  "question-answering": { answer: Type.String(), score, start: Type.Integer(), end: Type.Integer() },
  "image-classification": results(labelled),
  "zero-shot-image-classification": results(labelled),
  "object-detection": results({ ...labelled, box }),
};

/** Schema of the response of a task; for an unknown task, the fields of every response. */
export const nativeAnswerOf = (task: string): TSchema => Type.Object({ ...byTask[task], ...NativeAnswer.properties });

export const TokenEvent = Type.Object({
  index: Type.Optional(
    Type.Integer({ minimum: 0, description: "Number of the response, with several `num_responses`" }),
  ),
  token: Type.Object({
    id: Type.Integer(),
    text: Type.String(),
    logprob: nullable.number(),
    special: Type.Boolean(),
  }),
  generated_text: nullable.string({ description: "The whole text, in the last event of a response" }),
  details: nullable.object({
    required: ["finish_reason", "generated_tokens", "seed"],
    properties: {
      finish_reason: { type: "string" },
      generated_tokens: { type: "integer" },
      seed: { type: ["integer", "null"] },
    },
  }),
});
