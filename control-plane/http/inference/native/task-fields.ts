// Fields of native inference that a task reads, and those that it requires.
import type { NativeRequest } from "../native-schemas.ts";

type Field = keyof NativeRequest;

export interface TaskFields {
  readonly needed: readonly Field[];
  readonly others: readonly Field[];
}

const text: TaskFields = {
  needed: ["input"],
  others: [
    "stream",
    "max_new_tokens",
    "temperature",
    "top_p",
    "min_p",
    "top_k",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "stop",
    "num_responses",
    "response_format",
    "seed",
  ],
};
const vectors: TaskFields = { needed: ["inputs"], others: ["normalize"] };
const rerank: TaskFields = { needed: ["queries", "documents"], others: ["instruction"] };

const byTask: Readonly<Record<string, TaskFields>> = {
  "text-generation": text,
  "text2text-generation": text,
  embeddings: vectors,
  "sentence-similarity": vectors,
  "feature-extraction": vectors,
  reranker: rerank,
  "text-ranking": rerank,
  "automatic-speech-recognition": {
    needed: ["audio"],
    others: ["task", "initial_prompt", "temperature", "language", "chunk_level", "chunk_length_s"],
  },
  "text-to-speech": { needed: ["text"], others: ["output_format", "voice_id", "preset_voice", "speed", "language"] },
  "text-to-image": {
    needed: ["prompt"],
    others: [
      "negative_prompt",
      "num_images",
      "width",
      "height",
      "aspect_ratio",
      "num_inference_steps",
      "guidance_scale",
      "strength",
      "image",
      "seed",
    ],
  },
  "text-classification": { needed: ["input"], others: [] },
  "zero-shot-classification": { needed: ["input", "candidate_labels"], others: [] },
  "token-classification": { needed: ["input"], others: [] },
  "fill-mask": { needed: ["input"], others: [] },
  "question-answering": { needed: ["question", "context"], others: [] },
  "image-classification": { needed: ["image"], others: [] },
  "zero-shot-image-classification": { needed: ["image", "candidate_labels"], others: [] },
  "object-detection": { needed: ["image"], others: [] },
};

const unknown: TaskFields = {
  needed: [],
  others: ["input", "inputs", "image", "candidate_labels", "question", "context"],
};

/** Fields of a task in addition to `webhook` and `service_tier`, which every task accepts. */
export const fieldsOfTask = (task: string): TaskFields => byTask[task] ?? unknown;
