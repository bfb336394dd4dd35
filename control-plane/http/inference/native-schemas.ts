// Native inference: fields of every task in one schema. The model's task decides which of them are required.
import { type Static, Type } from "typebox";
import type { FormFile } from "../body/form-body.ts";
import { ResponseFormat } from "./chat-request-schemas.ts";
import { nullable, sampling } from "./sampling-schemas.ts";
import { maxCharacters, maxInputs } from "./tasks-schemas.ts";

const text = (bounds = {}) => Type.Optional(nullable.string(bounds));
const texts = (bounds = {}) => Type.Optional(nullable.array(Type.String(), bounds));
const whole = (minimum: number, maximum: number) => Type.Optional(nullable.integer({ minimum, maximum }));
const media = (description: string) =>
  Type.Optional(Type.Unsafe<string | FormFile>({ contentMediaType: "application/octet-stream", description }));

export const NativeRequest = Type.Object(
  {
    input: text(),
    inputs: texts({ minItems: 1, maxItems: maxInputs }),
    stream: sampling.stream,
    max_new_tokens: whole(1, 1_000_000),
    temperature: sampling.temperature,
    top_p: sampling.top_p,
    min_p: sampling.min_p,
    top_k: sampling.top_k,
    repetition_penalty: sampling.repetition_penalty,
    presence_penalty: sampling.presence_penalty,
    frequency_penalty: sampling.frequency_penalty,
    stop: sampling.stop,
    num_responses: whole(1, 4),
    response_format: Type.Optional(ResponseFormat),
    seed: sampling.seed,
    webhook: text({ maxLength: 2048 }),
    service_tier: text(),
    normalize: Type.Optional(nullable.boolean()),
    candidate_labels: texts({ minItems: 1, maxItems: 256 }),
    question: text(),
    context: text(),
    queries: texts({ minItems: 1, maxItems: maxInputs }),
    documents: texts({ minItems: 1, maxItems: maxInputs }),
    instruction: text(),
    audio: media("A file, or a data URI"),
    task: text({ enum: ["transcribe", "translate", null] }),
    initial_prompt: text(),
    language: text(),
    chunk_level: text({ enum: ["segment", "word", null] }),
    chunk_length_s: Type.Optional(nullable.number({ minimum: 1, maximum: 30 })),
    text: text({ minLength: 1, maxLength: maxCharacters }),
    output_format: text(),
    voice_id: text(),
    preset_voice: text(),
    speed: Type.Optional(nullable.number({ minimum: 0.25, maximum: 4 })),
    image: media("A file, or a data URI"),
    prompt: text(),
    negative_prompt: text(),
    num_images: whole(1, 4),
    width: whole(16, 8192),
    height: whole(16, 8192),
    aspect_ratio: text({ pattern: "^[1-9]\\d?:[1-9]\\d?$" }),
    num_inference_steps: whole(1, 1_000),
    guidance_scale: Type.Optional(nullable.number({ minimum: 0, maximum: 100 })),
    strength: Type.Optional(nullable.number({ minimum: 0, maximum: 1 })),
  },
  { description: "Fields that do not belong to the model's task are ignored" },
);
export type NativeRequest = Static<typeof NativeRequest>;

export const NativeAnswer = Type.Object(
  {
    request_id: Type.String(),
    inference_status: Type.Object({
      status: Type.Unsafe<string>({ type: "string", enum: ["unknown", "queued", "running", "succeeded", "failed"] }),
      runtime_ms: Type.Integer(),
      cost: Type.Number({ description: "USD" }),
      tokens_generated: nullable.integer(),
      tokens_input: nullable.integer(),
    }),
  },
  { description: "In addition to the fields of the model's task" },
);
