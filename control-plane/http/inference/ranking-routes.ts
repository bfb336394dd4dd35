// Rerankers (the format of Cohere and Jina), scorers (vLLM's) and moderation (OpenAI's).

import { scoresOf } from "../../../proto/engine-scores.ts";
import { costUsd } from "../../../proto/money.ts";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import type { Caller } from "../../accounts/caller.ts";
import type { ServedModel } from "../../catalog/served-model.ts";
import { modelFor } from "../../inference/admit.ts";
import type { Spine } from "../../inference/complete.ts";
import type { Completion } from "../../inference/completion.ts";
import type { Endpoints, InferenceEndpoint } from "../core/endpoint.ts";
import type { RequestState } from "../core/request-state.ts";
import { lengthsDiffer } from "../errors/errors.ts";
import type { WholeAnswer } from "./buffered-sink.ts";
import {
  ModerationAnswer,
  ModerationRequest,
  RerankAnswer,
  RerankRequest,
  ScoreAnswer,
  ScoreRequest,
} from "./ranking-schemas.ts";
import { compatPost, type Relays, renderedWhole } from "./relay-route.ts";
import { moderation, moderationModel, moderationResult } from "./tasks/moderation.ts";
import { rerank } from "./tasks/rerank.ts";

type Fields = Readonly<Record<string, unknown>>;

interface RankingRoute<Body> extends Pick<InferenceEndpoint, "path" | "summary" | "body" | "answer"> {
  /** Name of the model; the model of the body by default. */
  readonly nameOf?: (body: Body, caller: Caller) => string;
  readonly read: (body: Body, model: string, served: ServedModel) => Completion;
  /** Renders the fields of the engine's response. */
  readonly render: (fields: Fields, body: Body, state: RequestState) => object;
}

/** `moderationDefault`: the operator's model for moderation; undefined: none is set. */
export function addRankingRoutes(
  endpoints: Endpoints,
  spine: Spine,
  relays: Relays,
  moderationDefault: string | undefined,
): void {
  function add<Body extends { readonly model?: string | null | undefined }>(route: RankingRoute<Body>): void {
    const { nameOf = ({ model }) => model ?? "", read, render, ...endpoint } = route;
    const handler = relays.translated((request, state) => {
      const body = request.body as unknown as Body;
      const caller = state.caller as Caller;
      const model = nameOf(body, caller);
      return {
        completion: read(body, model, modelFor(spine.models, caller, model)),
        through: renderedWhole(spine, state, (answer: WholeAnswer) => ({
          model: state.model ?? model,
          ...render(JSON.parse(answer.body.toString()) as Fields, body, state),
        })),
      };
    });
    endpoints.addInference({ ...compatPost, ...endpoint }, handler);
  }
  add(rerankRoute);
  add(scoreRoute);
  add({
    ...moderationRoute,
    nameOf: ({ model }, caller) => moderationModel(spine.models, caller, model, moderationDefault),
  });
}

const rerankRoute: RankingRoute<RerankRequest> = {
  path: "/v1/rerank",
  summary: "Sort documents by their relevance to a query",
  body: RerankRequest,
  answer: RerankAnswer,
  read: ({ query, documents, instruction }, model, { engine, api }) =>
    rerank({ model, engine, api, queries: [query], documents: documents.map(textOf), instruction }),
  render(fields, body, state) {
    const results = scoresOf(fields, body.documents.length)
      .map((relevance_score, index) => ({
        index,
        relevance_score,
        ...(body.return_documents ? { document: { text: textOf(body.documents[index] ?? "") } } : {}),
      }))
      .toSorted((a, b) => b.relevance_score - a.relevance_score)
      .slice(0, body.top_n ?? undefined);
    const usage = usageOf(state);
    // A search of Cohere's is a query with up to 100 documents.
    const billed = { search_units: Math.ceil(body.documents.length / 100), input_tokens: usage.prompt_tokens };
    return { id: `rerank-${state.requestId}`, object: "list", results, usage, meta: { billed_units: billed } };
  },
};

const scoreRoute: RankingRoute<ScoreRequest> = {
  path: "/v1/score",
  summary: "Score pairs of texts",
  body: ScoreRequest,
  answer: ScoreAnswer,
  read({ text_1, text_2 }, model, { engine, api }) {
    const [queries, documents] = [[text_1].flat(), [text_2].flat()];
    if (queries.length !== 1 && queries.length !== documents.length) throw lengthsDiffer("text_2", "text_1");
    return rerank({ model, engine, api, queries, documents });
  },
  render: (fields, { text_2 }, state) => ({
    id: `score-${state.requestId}`,
    object: "list",
    created: unixSeconds(state.admittedAtMs),
    data: scoresOf(fields, [text_2].flat().length).map((score, index) => ({ index, object: "score", score })),
    usage: usageOf(state),
  }),
};

const moderationRoute: RankingRoute<ModerationRequest> = {
  path: "/v1/compat/moderations",
  summary: "Classify texts by harm, where a classifier is deployed for it",
  body: ModerationRequest,
  answer: ModerationAnswer,
  read: ({ input }, model, served) => moderation({ model, served, inputs: inputsOf(input) }),
  render({ results }, body, { requestId }) {
    if (!Array.isArray(results) || results.length !== inputsOf(body.input).length)
      throw new TypeError("the engine's response has another number of results");
    return {
      id: `modr-${requestId}`,
      results: results.map((one) => (Array.isArray(one) ? moderationResult(one) : one)),
    };
  },
};

const textOf = (one: string | { readonly text: string }): string => (typeof one === "string" ? one : one.text);

/** Parts are one input together. */
function inputsOf(input: ModerationRequest["input"]): readonly string[] {
  if (typeof input === "string") return [input];
  return typeof input[0] === "string" ? input.map(textOf) : [input.map(textOf).join("\n")];
}

function usageOf({ usage, rates }: RequestState) {
  const tokens = usage?.input ?? 0;
  return { prompt_tokens: tokens, total_tokens: tokens, estimated_cost: costUsd(usage, rates) };
}
