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
