// Relevance of documents to a query by the graph of a cross-encoder.
import type { ModelFolder } from "../onnx/model-folder.ts";
import type { TaskCall } from "../server/engine.ts";
import { rounded, sigmoid } from "./numbers.ts";
import { rerankRoutes } from "./rerank-routes.ts";
import type { TaskDeps } from "./task-deps.ts";
import type { OpenTask } from "./task-engine.ts";
import { encodeAll, openTextGraph } from "./text-graph.ts";
import { logitRows } from "./text-outputs.ts";
import { countInputs } from "./token-usage.ts";

export async function openRerank(deps: TaskDeps, folder: ModelFolder): Promise<OpenTask> {
  const graph = await openTextGraph<Float32Array>(deps, folder, {
    name: "rerank",
    outputs: [{ name: "logits", types: ["float32"], rank: 2 }],
    read: logitRows,
  });
  const { tokenizer } = graph;
  const scoresOf = async (pairs: readonly (readonly [string, string])[], field: string, call: TaskCall) => {
    const encode = ([query, document]: readonly [string, string]) => tokenizer.encode(query, document);
    const encoded = await encodeAll(tokenizer, pairs, encode, field);
    countInputs(call, encoded);
    // A model of two labels says how likely the second is.
    const found = await graph.run(encoded, call.signal);
    return found.map((row) =>
      rounded(sigmoid(row.length === 1 ? (row[0] as number) : (row[1] as number) - (row[0] as number))),
    );
  };
  return {
    contextLength: tokenizer.longest,
    routes: rerankRoutes(scoresOf),
    load: () => graph.batcher,
  };
}
