// Models that can be deployed: those that people run most, and those of the hub.
import { type Static, Type } from "typebox";
import type { HubModel } from "../../catalog/hub-search.ts";
import type { CatalogueModel } from "../../catalog/model-catalogue.ts";
import { hubTasksOf, taskOfHub } from "../../deployments/tasks.ts";
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

const HubQuery = Type.Object({
  search: Type.String({ minLength: 2, maxLength: 200, description: "Part of a name, as the hub searches" }),
  task: Type.Optional(Type.String({ maxLength: 64, description: "Exact task, such as text-generation" })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 50, default: 20 })),
});

const HubAnswer = Type.Object({
  models: Type.Array(
    Type.Object({
      name: Type.String({ description: "Repository on the hub" }),
      task: Type.Union([Type.String(), Type.Null()]),
      downloads: Type.Integer({ description: "In the last 30 days" }),
      likes: Type.Integer(),
      gated: Type.Boolean({ description: "The hub requires an account that accepted the licence" }),
      formats: Type.Array(Type.Enum(["gguf", "safetensors", "onnx"])),
    }),
    { description: "Most downloaded first" },
  ),
});

export function addCatalogueRoutes(
  endpoints: Endpoints,
  { catalogue, hub }: Pick<ModelFeatures, "catalogue" | "hub">,
): void {
  endpoints.with({ tag: "models", access: "key" }).get("/v1/model-catalogue", {
    isOpenToOperators: true,
    summary: "Models to deploy: licence, size, context and engines of those that people run most",
    isFromMemory: true,
    query: Query,
    answer: CatalogueAnswer,
    handler: ({ query }) => ({ models: catalogue.search(query.search ?? "", query.task).map(render) }),
  });
  endpoints.with({ tag: "models", access: "key" }).get("/v1/hub/models", {
    isOpenToOperators: true,
    summary: "Search the model hub of this server for repositories to deploy; asked anew after a minute",
    query: HubQuery,
    answer: HubAnswer,
    refusals: [429],
    handler: async ({ query: { search, task, limit = 20 }, caller }) => ({
      models: (
        await hub.search(caller.account, { search, tasks: task === undefined ? [] : hubTasksOf(task), limit })
      ).map(renderFound),
    }),
  });
}

const renderFound = (model: HubModel): Static<typeof HubAnswer>["models"][number] => ({
  name: model.name,
  task: model.task === undefined ? null : taskOfHub(model.task),
  downloads: model.downloads,
  likes: model.likes,
  gated: model.isGated,
  formats: [...model.formats],
});

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
