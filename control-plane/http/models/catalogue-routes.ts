// Models that people run most, before they are deployed.
import { type Static, Type } from "typebox";
import type { CatalogueModel } from "../../catalog/model-catalogue.ts";
import type { Endpoints } from "../core/endpoint.ts";
import type { ModelFeatures } from "./features.ts";

const Query = Type.Object({
  search: Type.Optional(Type.String({ maxLength: 200, description: "Part of a name or task" })),
  task: Type.Optional(Type.String({ maxLength: 64, description: "Exact task, such as text-generation" })),
});

const CatalogueAnswer = Type.Object({
  models: Type.Array(
    Type.Object({
      name: Type.String({ description: "Repository on the hub" }),
      revision: Type.String(),
      task: Type.String(),
      licence: Type.String(),
      gated: Type.Boolean({ description: "The hub requires an account that accepted the licence" }),
      parameters: Type.Number({ description: "Billions" }),
      active_parameters: Type.Number({ description: "Billions per token" }),
      context_length: Type.Integer({ description: "Tokens" }),
      inputs: Type.Array(Type.String()),
      engines: Type.Array(Type.String()),
      gguf: Type.String({ description: "Repository with the same model as GGUF; empty: none" }),
      tool_parser: Type.String({ description: "vLLM's name; empty: none" }),
      reasoning_parser: Type.String({ description: "vLLM's name; empty: none" }),
      weights: Type.Array(
        Type.Object({ quantisation: Type.String(), gib: Type.Number({ description: "Estimated size in GiB" }) }),
      ),
    }),
  ),
});

export function addCatalogueRoutes(endpoints: Endpoints, { catalogue }: Pick<ModelFeatures, "catalogue">): void {
  endpoints.with({ tag: "models", access: "key" }).get("/v1/model-catalogue", {
    isOpenToOperators: true,
    summary: "Models to deploy: licence, size, context and engines of those that people run most",
    isFromMemory: true,
    query: Query,
    answer: CatalogueAnswer,
    handler: ({ query }) => ({ models: catalogue.search(query.search ?? "", query.task).map(render) }),
  });
}

const render = (model: CatalogueModel): Static<typeof CatalogueAnswer>["models"][number] => ({
  name: model.name,
  revision: model.revision,
  task: model.task,
  licence: model.licence,
  gated: model.is_gated ?? false,
  parameters: model.parameters,
  active_parameters: model.active ?? model.parameters,
  context_length: model.context,
  inputs: model.inputs,
  engines: model.engines,
  gguf: model.gguf ?? "",
  tool_parser: model.tool_parser ?? "",
  reasoning_parser: model.reasoning_parser ?? "",
  weights: [...model.sizes],
});
