import type { ServedModel } from "../../../catalog/served-model.ts";
import { type Completion, taskCompletion } from "../../../inference/completion.ts";
import { exactly } from "../../../inference/task.ts";
import { lengthsDiffer, oneQueryOnly } from "../../errors/errors.ts";
import { bytesPerToken, jsonBody, tokensPerInput } from "./json-task.ts";

export interface RerankParams {
  readonly model: string;
  readonly engine: ServedModel["engine"];
  /** API of an external server. */
  readonly api?: ServedModel["api"];
  /** One for all documents, or one for each. */
  readonly queries: readonly string[];
  readonly documents: readonly string[];
  readonly instruction?: string | null | undefined;
}

/** Scores of pairs of query and document. Throws lengthsDiffer, oneQueryOnly. */
export function rerank({ model, engine, api, queries, documents, instruction }: RerankParams): Completion {
  if (queries.length !== 1 && queries.length !== documents.length) throw lengthsDiffer("documents", "queries");
  const isOne = queries.every((query) => query === queries[0]);
  const pairs = documents.map((_, i) => queries[queries.length === 1 ? 0 : i] as string);
  const bytes = [...pairs, ...documents].reduce((sum, one) => sum + Buffer.byteLength(one), 0);
  // Engines of others rank the documents of one query only.
  const scores = !isOne && engine === "external";
  if (!isOne && api === "tei") throw oneQueryOnly();
  return taskCompletion("rerank", model, {
    enginePath: scores ? "/v1/score" : api === "tei" ? "/rerank" : "/v1/rerank",
    inputTokensBound: bytes + documents.length * tokensPerInput,
    inputTokensEstimate: Math.ceil(bytes / bytesPerToken),
    units: () => exactly({ items: documents.length }),
    body: jsonBody(
      scores
        ? { text_1: pairs, text_2: documents }
        : api === "tei"
          ? { query: queries[0], texts: documents }
          : { ...(isOne ? { query: queries[0] } : { queries: pairs }), documents, instruction },
    ),
  });
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * Scores of an engine's response to `count` documents, in their order: rerankers sort by relevance, scorers do not. Throws on any
 * other format, and unless each document has one finite score.
 */
export function scoresOf(answer: Fields | readonly unknown[], count: number): readonly number[] {
  const { results, data, scores } = Array.isArray(answer) ? { results: answer } : (answer as Fields);
  const ranked = scores ?? results ?? data;
  if (!Array.isArray(ranked)) throw new TypeError("the engine's response has no scores");
  if (ranked.length !== count)
    throw new TypeError(`the engine's response has ${ranked.length} scores for ${count} documents`);
  const found = new Map<unknown, number>();
  for (const [place, one] of ranked.entries()) {
    const { index = place, ...fields } = typeof one === "number" ? { score: one } : (one as Fields);
    const score = fields["relevance_score"] ?? fields["score"];
    if (typeof score !== "number" || !Number.isFinite(score))
      throw new TypeError("the engine's response has a score that is not a finite number");
    found.set(index, score);
  }
  // Read by the documents' places: an index of the engine never sizes an array.
  return Array.from({ length: count }, (_, place) => {
    const score = found.get(place);
    if (score === undefined) throw new TypeError(`the engine's response has no score of document ${place}`);
    return score;
  });
}
