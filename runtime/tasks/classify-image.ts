// Labels of a picture.
import { labelsOf } from "../../proto/model-task.ts";
import type { ModelFolder } from "../onnx/model-folder.ts";
import { openImageGraph } from "./image-graph.ts";
import { readPicture } from "./image-input.ts";
import { jsonRoute } from "./json-route.ts";
import { ranked, softmax } from "./numbers.ts";
import type { TaskDeps } from "./task-deps.ts";
import type { OpenTask } from "./task-engine.ts";
import { nativeAnswer } from "./token-usage.ts";

export async function openImageClassification(deps: TaskDeps, folder: ModelFolder): Promise<OpenTask> {
  const graph = await openImageGraph(deps, folder, {
    name: "image classification",
    outputs: [{ name: "logits", types: ["float32"], rank: 2 }],
  });
  const labels = labelsOf(folder.config);
  const route = jsonRoute("inference", async (fields, call) => {
    const { logits } = await graph.run(await readPicture(fields), call);
    return nativeAnswer(call, { results: ranked(labels, softmax(Array.from(logits?.data ?? [], Number))) });
  });
  return { contextLength: 0, routes: new Map([["/v1/infer", route]]), load: () => graph.batcher };
}
