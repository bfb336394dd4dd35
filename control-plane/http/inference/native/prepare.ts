// Converts a native body to a Completion, by the task of the requested model. Throws the errors of the edge.
import type { ServedModel } from "../../../catalog/served-model.ts";
import { type Completion, taskCompletion } from "../../../inference/completion.ts";
import { exactly } from "../../../inference/task.ts";
import { fieldMissing, imageNotEmbedded, speechFormatUnknown } from "../../errors/errors.ts";
import { checkFormat } from "../check-format.ts";
import type { NativeRequest } from "../native-schemas.ts";
import { embeddings } from "../tasks/embeddings.ts";
import { images } from "../tasks/images.ts";
import { bytesPerToken, jsonBody, tokensPerInput } from "../tasks/json-task.ts";
import { rerank } from "../tasks/rerank.ts";
import { charactersOf, speech, speechFormat } from "../tasks/speech.ts";
import { transcription } from "../tasks/transcription.ts";
import {
  embeddingsAnswer,
  imagesAnswer,
  ownAnswer,
  type RenderNative,
  rerankAnswer,
  speechAnswer,
  textAnswer,
  transcriptionAnswer,
} from "./answers.ts";
import { fileOf, uriOf } from "./media.ts";
import { fieldsOfTask } from "./task-fields.ts";

export interface Prepared {
  readonly completion: Completion;
  readonly render: RenderNative;
}

type Prepare = (body: NativeRequest, model: ServedModel, requested: string) => Prepared;

export function prepare(body: NativeRequest, model: ServedModel, requested: string): Prepared {
  return (preparers[model.task] ?? ownTask)(body, model, requested);
}

function needed<T>(value: T | null | undefined, field: string): T {
  if (value === null || value === undefined) throw fieldMissing(field);
  return value;
}

const text: Prepare = (body, _model, requested) => {
  const prompt = needed(body.input, "input");
  checkFormat(body);
  const stream = body.stream === true;
  const fields = {
    model: requested,
    prompt,
    max_tokens: body.max_new_tokens,
    temperature: body.temperature,
    top_p: body.top_p,
    min_p: body.min_p,
    top_k: body.top_k,
    repetition_penalty: body.repetition_penalty,
    presence_penalty: body.presence_penalty,
    frequency_penalty: body.frequency_penalty,
    stop: body.stop,
    n: body.num_responses,
    seed: body.seed,
    response_format: body.response_format,
    // The events of a stream contain token ids and log probabilities.
    ...(stream ? { stream, logprobs: 0, return_tokens_as_token_ids: true } : {}),
  };
  const completion: Completion = {
    kind: "text_completion",
    model: requested,
    stream,
    n: body.num_responses ?? 1,
    maxTokens: body.max_new_tokens ?? undefined,
    promptBytes: Buffer.byteLength(prompt),
    messages: 1,
    usage: "merge",
    // The engine's body is written from the fields.
    bytes: Buffer.alloc(0),
    fields: Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)),
    isRebuilt: true,
    task: undefined,
  };
  return { completion, render: textAnswer };
};

const vectors: Prepare = (body, _model, requested) => {
  if (body.image != null) throw imageNotEmbedded();
  const input = needed(body.inputs, "inputs") as readonly string[];
  return { completion: embeddings({ model: requested, input, normalize: body.normalize }), render: embeddingsAnswer };
};

const rank: Prepare = ({ queries, documents: given, instruction }, { engine, api }, requested) => {
  const documents = needed(given, "documents") as readonly string[];
  return {
    completion: rerank({
      model: requested,
      engine,
      api,
      queries: needed(queries, "queries") as readonly string[],
      documents,
      instruction,
    }),
    render: rerankAnswer(documents.length),
  };
};

const transcribe: Prepare = (body, _model, requested) => ({
  completion: transcription({
    model: requested,
    task: body.task === "translate" ? "translate" : "transcribe",
    file: fileOf(body.audio, "audio"),
    prompt: body.initial_prompt,
    language: body.language,
    temperature: body.temperature,
    format: "verbose_json",
    granularities: body.chunk_level === "word" ? ["segment", "word"] : undefined,
    chunkLength: body.chunk_length_s,
  }),
  render: transcriptionAnswer,
});

const synthesize: Prepare = (body, _model, requested) => {
  const said = needed(body.text, "text");
  const code = body.output_format ?? "wav";
  const format = speechFormat(code);
  if (!format) throw speechFormatUnknown(code);
  const voice = body.voice_id ?? body.preset_voice;
  return {
    completion: speech({ model: requested, text: said, voice, format, speed: body.speed, language: body.language }),
    render: speechAnswer(charactersOf(said), format),
  };
};

const generateImage: Prepare = (body, _model, requested) => {
  const prompt = needed(body.prompt, "prompt");
  const { num_inference_steps: steps, seed } = body;
  const fields = {
    seed,
    num_inference_steps: steps,
    guidance_scale: body.guidance_scale,
    strength: body.strength,
    negative_prompt: body.negative_prompt,
    image: body.image == null ? undefined : uriOf(body.image, "image"),
  };
  const request = { model: requested, n: body.num_images ?? 1, ...sizeOf(body), steps, prompt, fields };
  return { completion: images(request), render: imagesAnswer(seed) };
};

/** An aspect ratio keeps the area of 1024 x 1024, in steps of 64. */
function sizeOf({ width, height, aspect_ratio: ratio }: NativeRequest): { width: number; height: number } {
  const [across = 1, down = 1] = (ratio ?? "1:1").split(":").map(Number);
  const side = (share: number) => Math.max(64, Math.round((1024 * Math.sqrt(share)) / 64) * 64);
  return { width: width ?? side(across / down), height: height ?? side(down / across) };
}

/** Classifiers and all other tasks of our own runtime: fields are passed unchanged, files as data URIs. */
const ownTask: Prepare = (body, { task }, requested) => {
  for (const field of fieldsOfTask(task).needed) needed((body as Record<string, unknown>)[field], field);
  const { webhook: _, service_tier: __, stream: ___, ...rest } = body as Record<string, unknown>;
  const fields = { ...rest, ...(body.image == null ? {} : { image: uriOf(body.image, "image") }) };
  const words = [body.input, body.question, body.context].filter((one) => typeof one === "string").join("");
  const bytes = Buffer.byteLength(words);
  const completion = taskCompletion("inference", requested, {
    enginePath: "/v1/infer",
    inputTokensBound: bytes + labelTokensBound(body, bytes),
    inputTokensEstimate: Math.ceil(bytes / bytesPerToken),
    units: () => exactly({ items: 1 }),
    body: jsonBody({ task, ...fields }),
  });
  return { completion, render: ownAnswer };
};

/** The model reads every label with the whole input and the sentence that contains it. */
function labelTokensBound(body: NativeRequest, inputBytes: number): number {
  const labels = (body.candidate_labels as readonly string[] | null | undefined) ?? [""];
  const { hypothesis_template: template } = body as Record<string, unknown>;
  const sentence = typeof template === "string" ? Buffer.byteLength(template) : usualTemplateBytes;
  return labels.reduce((sum, label) => sum + Buffer.byteLength(label) + sentence + inputBytes + tokensPerInput, 0);
}
const usualTemplateBytes = 32;

const preparers: Readonly<Record<string, Prepare>> = {
  "text-generation": text,
  "text2text-generation": text,
  embeddings: vectors,
  "sentence-similarity": vectors,
  "feature-extraction": vectors,
  reranker: rank,
  "text-ranking": rank,
  "automatic-speech-recognition": transcribe,
  "text-to-speech": synthesize,
  "text-to-image": generateImage,
};
