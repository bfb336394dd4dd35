import type { ServedModel } from "../../../catalog/served-model.ts";
import { type Completion, taskCompletion } from "../../../inference/completion.ts";
import { exactly } from "../../../inference/task.ts";
import { lengthsDiffer } from "../../errors/errors.ts";
import { bytesPerToken, jsonBody, tokensPerInput } from "./json-task.ts";

export interface RerankParams {
  readonly model: string;
  readonly engine: ServedModel["engine"];
  /** One for all documents, or one for each. */
  readonly queries: readonly string[];
  readonly documents: readonly string[];
  readonly instruction?: string | null | undefined;
}

/** Scores of pairs of query and document. Throws lengthsDiffer. */
export function rerank({ model, engine, queries, documents, instruction }: RerankParams): Completion {
  if (queries.length !== 1 && queries.length !== documents.length) throw lengthsDiffer("documents", "queries");
  const isOne = queries.every((query) => query === queries[0]);
  const pairs = documents.map((_, i) => queries[queries.length === 1 ? 0 : i] as string);
  const bytes = [...pairs, ...documents].reduce((sum, one) => sum + Buffer.byteLength(one), 0);
  // Engines of others rank the documents of one query only.
  const scores = !isOne && engine === "external";
  return taskCompletion("rerank", model, {
    enginePath: scores ? "/v1/score" : "/v1/rerank",
    inputTokensBound: bytes + documents.length * tokensPerInput,
    inputTokensEstimate: Math.ceil(bytes / bytesPerToken),
    units: () => exactly({ items: documents.length }),
    body: jsonBody(
      scores
        ? { text_1: pairs, text_2: documents }
        : { ...(isOne ? { query: queries[0] } : { queries: pairs }), documents, instruction },
    ),
  });
}

type Fields = Readonly<Record<string, unknown>>;

/** Scores of an engine's response, in the order of the documents: rerankers sort by relevance, scorers do not. Throws on any other format. */
export function scoresOf({ results, data, scores }: Fields): readonly number[] {
  const ranked = scores ?? results ?? data;
  if (!Array.isArray(ranked)) throw new TypeError("the engine's answer has no scores");
  const found: number[] = [];
  for (const [place, one] of ranked.entries()) {
    const score = typeof one === "number" ? one : ((one as Fields)["relevance_score"] ?? (one as Fields)["score"]);
    if (typeof score !== "number") throw new TypeError("the engine's answer has a score that is no number");
    found[typeof one === "number" ? place : Number((one as Fields)["index"] ?? place)] = score;
  }
  return found;
}
