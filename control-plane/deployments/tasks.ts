// Tasks of the interface, their names at the hub, and the engines that serve them. Pure.
import { deploymentRefused } from "./errors.ts";

export const interfaceTasks = [
  "automatic-speech-recognition",
  "image-classification",
  "question-answering",
  "token-classification",
  "text-to-image",
  "fill-mask",
  "zero-shot-image-classification",
  "text2text-generation",
  "text-generation",
  "text-classification",
  "object-detection",
  "embeddings",
  "text-to-speech",
  "text-to-video",
  "text-to-music",
  "reranker",
  "custom",
  "dreambooth",
  "rent-container",
  "bare-metal",
  "cluster",
  "decision",
] as const;
export type Task = (typeof interfaceTasks)[number] | "zero-shot-classification";

/** Tasks that the ONNX part of our runtime serves. */
const byOnnx: ReadonlySet<string> = new Set([
  "automatic-speech-recognition",
  "image-classification",
  "question-answering",
  "token-classification",
  "fill-mask",
  "zero-shot-classification",
  "zero-shot-image-classification",
  "text-classification",
  "object-detection",
  "embeddings",
  "text-to-speech",
  "text-to-image",
  "reranker",
]);

const ofHub: Readonly<Record<string, Task>> = {
  "feature-extraction": "embeddings",
  "sentence-similarity": "embeddings",
  "text-ranking": "reranker",
  "image-text-to-text": "text-generation",
  conversational: "text-generation",
};

/** Task of a hub repository in the interface's words. */
export const taskOfHub = (task: string): string => (Object.hasOwn(ofHub, task) ? ofHub[task] : undefined) ?? task;

/** The hub's names of a task. */
export function hubTasksOf(task: string): readonly string[] {
  const names = Object.keys(ofHub).filter((name) => ofHub[name] === task);
  return task === "embeddings" || task === "reranker" ? names : [task, ...names];
}

export type TaskEngine = "onnx" | "llm";

/** Returns the requested task, otherwise the hub's. Throws deploymentRefused. */
export function taskOf(requested: string | undefined, ofRepo: string | undefined): Task {
  const task = requested ?? (ofRepo === undefined ? undefined : taskOfHub(ofRepo));
  if (task === undefined) throw refused("the repository has no task, or the hub is unreachable; set it in `task`.");
  return task as Task;
}

/** Throws deploymentRefused with alternatives for an unsupported task. */
export function engineOfTask(task: Task): TaskEngine {
  if (task === "text-generation") return "llm";
  if (byOnnx.has(task)) return "onnx";
  if (task === "rent-container") throw refused("to rent a container, use POST /v1/containers.");
  if (task === "custom") throw refused("to deploy your own image, use POST /v1/deploy.");
  throw refused(`${task.slice(0, 60)} is not supported. Supported: text-generation, ${[...byOnnx].join(", ")}.`);
}

/** The record's `type`. */
export function typeOfTask(task: string): "llm" | "tts" | "legacy" {
  if (task === "text-generation") return "llm";
  return task === "text-to-speech" ? "tts" : "legacy";
}

const refused = (why: string) => deploymentRefused(`task: ${why}`, { param: "task" });
