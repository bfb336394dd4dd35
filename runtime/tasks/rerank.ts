// Relevance of documents to a query by the graph of a cross-encoder.
import type { ModelFolder } from "../onnx/model-folder.ts";
import { rounded, sigmoid } from "./numbers.ts";
import { type Pair, rerankRoutes } from "./rerank-routes.ts";
import type { OpenTask, TaskDeps } from "./task-engine.ts";
import { encodeAll, logitRows, openTextGraph } from "./text-graph.ts";

export async function openRerank(deps: TaskDeps, folder: ModelFolder): Promise<OpenTask> {
  const { tokenizer, load, run } = await openTextGraph<Float32Array>(deps, folder, {
    name: "rerank",
    outputs: [{ name: "logits", types: ["float32"], rank: 2 }],
    read: logitRows,
  });
  const encode = ([query, document]: Pair) => tokenizer.encode(query, document);
  const routes = rerankRoutes(async (pairs, field, call) => {
    const found = await run(call, await encodeAll(tokenizer, pairs, field, encode));
    // With two labels, the score is the probability of the second.
    return found.map((row) =>
      rounded(sigmoid(row.length === 1 ? (row[0] as number) : (row[1] as number) - (row[0] as number))),
    );
  });
  return { contextLength: tokenizer.longest, routes, load };
}
