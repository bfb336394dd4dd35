// From a model's folder to an engine: which task, its graphs, warmed up.
import { access } from "node:fs/promises";
import { detectTask, type Task } from "../../proto/model-task.ts";
import type { RuntimeConfig } from "../config.ts";
import { LoadFailure } from "../llama/load-failure.ts";
import { type ModelFolder, readModelFolder } from "../onnx/model-folder.ts";
import { type GraphOptions, Graphs } from "../onnx/open-graph.ts";
import type { Engine } from "../server/engine.ts";
import { openQuestionAnswering } from "./answer-question.ts";
import { openTextClassification } from "./classify-text.ts";
import { openTokenClassification } from "./classify-tokens.ts";
import { openEmbeddings } from "./embeddings.ts";
import { openFillMask } from "./fill-mask.ts";
import { openRerank } from "./rerank.ts";
import { type OpenTask, type TaskDeps, taskEngine } from "./task-engine.ts";

export interface TaskOptions
  extends GraphOptions,
    Pick<RuntimeConfig, "modelPath" | "task">,
    Pick<TaskDeps, "maxBatchSize" | "latencyBudgetMs" | "observe" | "imageAdapters"> {}

type Open = (deps: TaskDeps, folder: ModelFolder) => Promise<OpenTask>;

const openers: Partial<Record<Task, Open>> = {
  embeddings: openEmbeddings,
  reranker: openRerank,
  "text-classification": openTextClassification,
  "zero-shot-classification": openTextClassification,
  "token-classification": openTokenClassification,
  "fill-mask": openFillMask,
  "question-answering": openQuestionAnswering,
  // Only tasks with pictures load the library of pictures.
  "image-classification": async (...given) => (await import("./match-image.ts")).openImageClassification(...given),
  "zero-shot-image-classification": async (...given) => (await import("./match-image.ts")).openImageMatching(...given),
  "object-detection": async (...given) => (await import("./detect-objects.ts")).openObjectDetection(...given),
  "text-to-image": async (...given) => (await import("./images/open-painting.ts")).openPainting(...given),
  // Only tasks with sound load the libraries of sound.
  "automatic-speech-recognition": async (...given) =>
    (await import("./transcribe/open-transcription.ts")).openTranscription(...given),
  "text-to-speech": async (...given) => (await import("./speech/open-speech.ts")).openSpeech(...given),
};

const readsPictures: Task = "image-text-to-text";

/** Throws LoadFailure. */
export async function openTasks(options: TaskOptions): Promise<Engine> {
  const folder = await readModelFolder(options.modelPath);
  const task = options.task === "" ? await detected(folder) : options.task;
  const open = Object.hasOwn(openers, task) ? openers[task as Task] : undefined;
  if (!open && task !== readsPictures)
    throw new LoadFailure(
      "unsupported task",
      `this model server has no ${task} for ONNX models; it has ${[...Object.keys(openers), readsPictures].join(", ")}`,
    );
  const { maxBatchSize, latencyBudgetMs, observe, imageAdapters = [] } = options;
  if (imageAdapters.length > 0 && task !== "text-to-image")
    throw new LoadFailure(
      "adapters of another task",
      `${task} takes no image adapters; leave STOKER_IMAGE_ADAPTERS out`,
    );
  const graphs = new Graphs(options);
  try {
    const { memoryBytes, graphCacheDir: scratchDir } = options;
    const deps = { graphs, maxBatchSize, latencyBudgetMs, observe, imageAdapters, memoryBytes, scratchDir };
    // It generates text, so it is an engine of its own and no route of one.
    if (!open) return await (await import("./vision/open-vision.ts")).openVision(deps, folder);
    const opened = await open(deps, folder);
    const { provider, warnings } = graphs;
    return taskEngine(opened, {
      maxBatchSize,
      provider,
      warnings,
      close: async () => {
        await opened.close?.();
        await graphs.close();
      },
    });
  } catch (error) {
    await graphs.close();
    throw error;
  }
}

async function detected(folder: ModelFolder): Promise<Task> {
  const isPipeline = await access(folder.path("model_index.json")).then(
    () => true,
    () => false,
  );
  const task = detectTask(folder.config, new Set(isPipeline ? ["model_index.json"] : []));
  if (task) return task;
  throw new LoadFailure(
    "unknown task",
    `${folder.root}: its config.json names no architecture that this model server knows; name the task in the deployment`,
  );
}
