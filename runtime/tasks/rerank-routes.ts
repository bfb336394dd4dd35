// Relevance on the wire: POST /v1/infer in the native form, POST /v1/rerank in that or in the one that other rerankers take
// (`query`, `documents`, `top_n`).
import type { TaskCall, TaskRoute } from "../server/engine.ts";
import { jsonRoute } from "./json-route.ts";
import { readRerankRequest } from "./rerank-request.ts";
import { nativeAnswer } from "./token-usage.ts";

/** `scoresOf` counts the tokens of its pairs in the call's usage. */
export function rerankRoutes(
  scoresOf: (
    pairs: readonly (readonly [query: string, document: string])[],
    field: string,
    call: TaskCall,
  ) => Promise<readonly number[]>,
): ReadonlyMap<string, TaskRoute> {
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
  return new Map([
    ["/v1/rerank", route],
    ["/v1/infer", route],
  ]);
}
