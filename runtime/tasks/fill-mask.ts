// The words that fit where a text has a gap.
import { LoadFailure } from "../llama/load-failure.ts";
import type { ModelFolder } from "../onnx/model-folder.ts";
import type { TensorValue } from "../onnx/session.ts";
import type { Encoded } from "../onnx/tokenizer.ts";
import { unusable } from "../server/request-error.ts";
import { nativeTask, requiredText } from "./native-task.ts";
import { rounded, softmax } from "./numbers.ts";
import type { OpenTask, TaskDeps } from "./task-engine.ts";
import { encodeAll, openTextGraph, type TokenBatch } from "./text-graph.ts";

const usualTop = 5;

export async function openFillMask(deps: TaskDeps, folder: ModelFolder): Promise<OpenTask> {
  let maskId = -1;
  const graph = await openTextGraph<Float32Array>(deps, folder, {
    name: "fill-mask",
    outputs: [{ name: "logits", types: ["float32"], rank: 3 }],
    read: (output, batch) => maskRows(output, batch, maskId),
  });
  const { tokenizer } = graph;
  const mask = tokenizer.maskToken;
  maskId = tokenizer.idOf(mask ?? "") ?? -1;
  if (mask === undefined || maskId < 0)
    throw new LoadFailure("no mask token", "tokenizer_config.json names no mask_token, and fill-mask needs one");
  return nativeTask(tokenizer.longest, graph.load, async (fields, call) => {
    const input = requiredText(fields, "input");
    const top = fields.integer("top_k", { min: 1, max: 100 }) ?? usualTop;
    const encoded = await encodeAll(tokenizer, [input], "input");
    const { ids } = encoded[0] as Encoded;
    const masks = ids.filter((id) => id === maskId).length;
    if (masks !== 1) throw unusable("input", `input must hold ${mask} exactly once, and it does so ${masks} times`);
    const [row = new Float32Array()] = await graph.run(call, encoded);
    const scores = softmax(row);
    const best = scores.map((_, id) => id).sort((a, b) => (scores[b] as number) - (scores[a] as number));
    const results = best.slice(0, top).map((token) => ({
      sequence: tokenizer.decode(ids.map((id) => (id === maskId ? token : id))),
      score: rounded(scores[token] as number),
      token,
      token_str: tokenizer.decode([token]).trim(),
    }));
    return { results };
  });
}

/** The vocabulary's scores at the gap; of a text without one, at its first token. */
function maskRows(output: TensorValue, { items, longest }: TokenBatch, maskId: number): Float32Array[] {
  const width = output.dims.at(-1) ?? 0;
  return items.map(({ ids }, row) => {
    const start = (row * longest + Math.max(0, ids.indexOf(maskId))) * width;
    return (output.data as Float32Array).slice(start, start + width);
  });
}
