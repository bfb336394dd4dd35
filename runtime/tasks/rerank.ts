// Relevance of documents to a query by a cross-encoder: POST /v1/infer in the native form, POST /v1/rerank in that or in
// the one that other rerankers take (`query`, `documents`, `top_n`).
import type { ModelFolder } from "../onnx/model-folder.ts";
import type { TaskCall } from "../server/engine.ts";
import { jsonRoute } from "./json-route.ts";
import { rounded, sigmoid } from "./numbers.ts";
import { readRerankRequest } from "./rerank-request.ts";
import type { TaskDeps } from "./task-deps.ts";
import type { OpenTask } from "./task-engine.ts";
import { encodeAll, openTextGraph } from "./text-graph.ts";
import { logitRows } from "./text-outputs.ts";
import { countInputs, nativeAnswer } from "./token-usage.ts";

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
  const route = jsonRoute("rerank", async (fields, call) => {
    const request = readRerankRequest(fields);
    const scores = await scoresOf(request.pairs, "documents", call);
    if (!request.isRanked) return nativeAnswer(call, { scores });
    const results = scores.map((score, index) => ({
      index,
      relevance_score: score,
      ...(request.returnsDocuments ? { document: { text: request.pairs[index]?.[1] } } : {}),
    }));
    results.sort((a, b) => b.relevance_score - a.relevance_score);
    return nativeAnswer(call, { model: call.model, results: results.slice(0, request.topN) });
  });
  return {
    contextLength: tokenizer.longest,
    routes: new Map([
      ["/v1/rerank", route],
      ["/v1/infer", route],
    ]),
    load: () => graph.batcher,
  };
}
