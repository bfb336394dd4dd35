import type { ModelDirectory } from "../../catalog/served-model.ts";
import { isListed } from "../../inference/may-use.ts";
import type { Endpoints } from "../endpoint.ts";
import { renderModelList, renderModelSummaries } from "../render-models.ts";
import { ModelList, ModelSummaries } from "../schemas/models.ts";

export function addModelRoutes(endpoints: Endpoints, models: ModelDirectory): void {
  endpoints.add({
    method: "GET",
    path: "/v1/models",
    summary: "Models this key may use",
    tag: "models",
    access: "inference",
    dialect: "compat",
    answer: ModelList,
    handler: ({ caller }) =>
      renderModelList(models.list(caller.account).filter((model) => isListed(caller.models, model))),
  });

  endpoints.add({
    method: "GET",
    path: "/models/list",
    summary: "Models offered to every account",
    tag: "models",
    access: "public",
    answer: ModelSummaries,
    handler: ({ caller }) => renderModelSummaries(models.list(caller.account), new Map()),
  });
}
