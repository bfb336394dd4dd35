// Scores the request's labels for a picture with a model like CLIP.
import { labelsOf } from "../../proto/model-task.ts";
import { checkIo } from "../onnx/check-io.ts";
import { openImageProcessor } from "../onnx/image-processor.ts";
import { graphOf, type ModelFolder } from "../onnx/model-folder.ts";
import type { TensorValue } from "../onnx/session.ts";
import { openTokenizer } from "../onnx/tokenizer.ts";
import { invalid } from "../server/request-error.ts";
import { readZeroShot } from "./classify-text.ts";
import { openImageGraph } from "./image-graph.ts";
import { readPicture } from "./image-input.ts";
import { nativeTask } from "./native-task.ts";
import { ranked, sigmoid, softmax } from "./numbers.ts";
import type { OpenTask, TaskDeps } from "./task-engine.ts";
import { encodeAll, tokensOf } from "./text-graph.ts";

const usualTemplate = "This is a photo of {}.";

export async function openImageMatching(deps: TaskDeps, folder: ModelFolder): Promise<OpenTask> {
  const graph = graphOf(folder);
  const processor = await openImageProcessor(folder);
  const tokenizer = await openTokenizer(folder);
  const session = await deps.graphs.open(folder, graph);
  checkIo(graph, "zero-shot image classification", session, {
    known: [
      { name: "pixel_values", types: ["float32"], rank: 4 },
      { name: "input_ids", types: ["int64"], rank: 2 },
      { name: "attention_mask", types: ["int64"], rank: 2 },
    ],
    required: ["pixel_values", "input_ids"],
    outputs: [{ name: "logits_per_image", types: ["float32"], rank: 2 }],
  });
  // SigLIP judges each label by itself.
  const isEach = String(folder.config["model_type"]).startsWith("siglip");
  let running = 0;
  const load = () => ({ running: Math.min(1, running), waiting: Math.max(0, running - 1) });
  return nativeTask(tokenizer.longest, load, async (fields, call) => {
    const request = readZeroShot(fields, usualTemplate);
    if (!request) throw invalid("candidate_labels", "candidate_labels is required: what the picture may show");
    const picture = await readPicture(fields);
    const texts = request.labels.map(request.hypothesis);
    const encoded = await encodeAll(tokenizer, texts, "candidate_labels");
    call.usage.inputTokens = tokensOf(encoded);
    call.usage.units = { items: encoded.length };
    const longest = Math.max(...encoded.map(({ ids }) => ids.length));
    const dims = [encoded.length, longest];
    const ids = new BigInt64Array(encoded.length * longest).fill(BigInt(tokenizer.padId));
    const mask = new BigInt64Array(encoded.length * longest);
    for (const [row, one] of encoded.entries())
      for (const [at, id] of one.ids.entries()) {
        ids[row * longest + at] = BigInt(id);
        mask[row * longest + at] = 1n;
      }
    const all: Record<string, TensorValue> = {
      ...(await processor(picture)),
      input_ids: { type: "int64", data: ids, dims },
      attention_mask: { type: "int64", data: mask, dims },
    };
    const feeds = Object.fromEntries(session.inputs.map(({ name }) => [name, all[name] as TensorValue]));
    running += 1;
    try {
      call.signal.throwIfAborted();
      const { logits_per_image: logits } = await session.run(feeds, ["logits_per_image"]);
      const scores = Array.from(logits?.data ?? [], Number);
      return { results: ranked(request.labels, isEach ? scores.map(sigmoid) : softmax(scores)) };
    } finally {
      running -= 1;
    }
  });
}

export async function openImageClassification(deps: TaskDeps, folder: ModelFolder): Promise<OpenTask> {
  const graph = await openImageGraph(deps, folder, {
    name: "image classification",
    outputs: [{ name: "logits", types: ["float32"], rank: 2 }],
  });
  const labels = labelsOf(folder.config);
  return nativeTask(0, graph.load, async (fields, call) => {
    const { logits } = await graph.run(await readPicture(fields), call);
    return { results: ranked(labels, softmax(Array.from(logits?.data ?? [], Number))) };
  });
}
