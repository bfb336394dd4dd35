// Object detection with a model like DETR: a list of boxes, each with scores of labels and of nothing.
// Source of the boxes: DetrImageProcessor.post_process_object_detection.
import { labelsOf } from "../../proto/model-task.ts";
import type { ModelFolder } from "../onnx/model-folder.ts";
import { type ImageOutputs, openImageGraph } from "./image-graph.ts";
import { readPicture } from "./image-input.ts";
import { nativeTask } from "./native-task.ts";
import { rounded, softmax } from "./numbers.ts";
import type { OpenTask, TaskDeps } from "./task-engine.ts";

const usualThreshold = 0.5;

export async function openObjectDetection(deps: TaskDeps, folder: ModelFolder): Promise<OpenTask> {
  const graph = await openImageGraph(deps, folder, {
    name: "object detection",
    outputs: [
      { name: "logits", types: ["float32"], rank: 3 },
      { name: "pred_boxes", types: ["float32"], rank: 3 },
    ],
  });
  const labels = labelsOf(folder.config);
  return nativeTask(0, graph.load, async (fields, call) => {
    const threshold = fields.number("threshold", { min: 0, max: 1 }) ?? usualThreshold;
    const picture = await readPicture(fields);
    return { results: objectsIn(await graph.run(picture, call), labels, picture, threshold) };
  });
}

/** Boxes in pixels of the picture, the surest first. */
export function objectsIn(
  { logits, pred_boxes: boxes }: ImageOutputs,
  labels: readonly string[],
  { width, height }: { readonly width: number; readonly height: number },
  threshold: number,
) {
  const [, count = 0, classes = 0] = logits?.dims ?? [];
  const found = Array.from({ length: count }, (_, query) => {
    const scores = softmax(Array.from((logits?.data ?? []).slice(query * classes, (query + 1) * classes), Number));
    // The last label is that nothing is there.
    const own = scores.slice(0, -1);
    const best = own.reduce((max, score, label) => (score > (own[max] as number) ? label : max), 0);
    const [x = 0, y = 0, w = 0, h = 0] = Array.from((boxes?.data ?? []).slice(query * 4, query * 4 + 4), Number);
    const pixel = (value: number, size: number) => Math.max(0, Math.min(size, Math.trunc(value * size)));
    const box = {
      xmin: pixel(x - w / 2, width),
      ymin: pixel(y - h / 2, height),
      xmax: pixel(x + w / 2, width),
      ymax: pixel(y + h / 2, height),
    };
    return { label: labels[best] ?? `LABEL_${best}`, score: rounded(own[best] ?? 0), box };
  });
  return found.filter(({ score }) => score > threshold).sort((a, b) => b.score - a.score);
}
