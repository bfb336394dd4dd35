// Modes of the playground and the models that they need.
import type { ModelSummary } from "./models.ts";

export const modes = ["chat", "compare", "embeddings", "images", "speech", "transcription"] as const;
export type Mode = (typeof modes)[number];

export const isMode = (text: string): text is Mode => (modes as readonly string[]).includes(text);

interface Need {
  readonly tasks: readonly string[];
  /** Model that is easily deployed for it. */
  readonly example: string;
}

const chat: Need = {
  tasks: ["text-generation", "text2text-generation", "image-text-to-text"],
  example: "Qwen/Qwen3-0.6B",
};

export const needs: Readonly<Record<Mode, Need>> = {
  chat,
  compare: chat,
  embeddings: { tasks: ["embeddings"], example: "sentence-transformers/all-MiniLM-L6-v2" },
  images: { tasks: ["text-to-image"], example: "stabilityai/sd-turbo" },
  speech: { tasks: ["text-to-speech"], example: "hexgrad/Kokoro-82M" },
  transcription: { tasks: ["automatic-speech-recognition"], example: "openai/whisper-large-v3-turbo" },
};

/** Deprecated models come last. */
export const modelsFor = (mode: Mode, models: readonly ModelSummary[]): readonly ModelSummary[] =>
  models
    .filter(({ type }) => needs[mode].tasks.includes(type))
    .sort((a, b) => Number(a.deprecated !== 0) - Number(b.deprecated !== 0));

/** Mode in which a model of the task can be tried. */
export const modeOf = (task: string): Mode | undefined => modes.find((mode) => needs[mode].tasks.includes(task));

/** Page that tries a model. Undefined: the playground has no mode for its task. */
export function tryPage({ type, model_name: model }: Pick<ModelSummary, "type" | "model_name">): string | undefined {
  const mode = modeOf(type);
  if (!mode) return undefined;
  return `/playground?${new URLSearchParams({ ...(mode === "chat" ? {} : { mode }), model })}`;
}

export function deployPage(mode: Mode): string {
  const { example, tasks } = needs[mode];
  return `/deployments/new?${new URLSearchParams({ model: example, task: tasks[0] ?? "" })}`;
}
