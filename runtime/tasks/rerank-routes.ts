// Relevance on the wire: POST /v1/infer in the native form, POST /v1/rerank in that or in the one that other rerankers take
// (`query`, `documents`, `top_n`).
import type { TaskCall, TaskRoute } from "../server/engine.ts";
import type { Fields } from "../server/fields.ts";
import { invalid, unusable } from "../server/request-error.ts";
import { jsonRoute, nativeAnswer } from "./native-task.ts";

export type Pair = readonly [query: string, document: string];

/** `scoresOf` counts the tokens of its pairs in the call's usage. */
export function rerankRoutes(
  scoresOf: (pairs: readonly Pair[], field: string, call: TaskCall) => Promise<readonly number[]>,
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

interface RerankRequest {
  readonly pairs: readonly Pair[];
  /** The answer is a list of results, best first, instead of scores by pair. */
  readonly isRanked: boolean;
  readonly topN: number | undefined;
  readonly returnsDocuments: boolean;
}

const maxDocuments = 1024;

/** Throws RequestError. */
function readRerankRequest(fields: Fields): RerankRequest {
  const instruction = fields.string("instruction");
  if (instruction !== undefined && instruction !== "")
    throw unusable("instruction", "this model takes no instruction; leave it out, or use a model that does");
  const documents = textsIn(fields, "documents");
  if (documents.length > maxDocuments)
    throw invalid("documents", `documents has ${documents.length} entries and one request takes ${maxDocuments}`);
  const query = fields.string("query");
  if (query !== undefined)
    return {
      pairs: documents.map((document) => [query, document] as const),
      isRanked: true,
      topN: fields.integer("top_n", { min: 1 }),
      returnsDocuments: fields.boolean("return_documents") ?? false,
    };
  const queries = textsIn(fields, "queries");
  if (queries.length !== 1 && queries.length !== documents.length)
    throw invalid(
      "queries",
      `queries has ${queries.length} entries and documents ${documents.length}; give one query for all, or one for each`,
    );
  const queryOf = (index: number) => (queries.length === 1 ? queries[0] : queries[index]) as string;
  const pairs = documents.map((document, index) => [queryOf(index), document] as const);
  return { pairs, isRanked: false, topN: undefined, returnsDocuments: false };
}

/** Documents may also come as `{"text": ...}`. */
function textsIn(fields: Fields, name: string): string[] {
  const list = fields.list(name);
  if (list === undefined || list.length === 0) throw invalid(name, `${name} is required: a list of texts`);
  return list.map((one, index) => {
    const text = typeof one === "object" && one !== null ? (one as { text?: unknown }).text : one;
    if (typeof text !== "string") throw invalid(name, `${name}[${index}] must be a text`);
    return text;
  });
}
