import { Type } from "typebox";
import type { ModelDirectory } from "../../catalog/served-model.ts";
import { ModelNotFound } from "../../inference/errors.ts";
import { isListed } from "../../inference/may-use.ts";
import type { Endpoints } from "../endpoint.ts";
import { renderModel, renderModelList, renderModelSummaries } from "../render-models.ts";
import { ModelItem, ModelList, ModelSummaries } from "../schemas/models.ts";

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
    path: "/v1/models/:model_name",
    summary: "One model that this key may use",
    tag: "models",
    access: "inference",
    dialect: "compat",
    params: Type.Object({ model_name: Type.String({ minLength: 1, description: "It may hold slashes" }) }),
    answer: ModelItem,
    refusals: [404],
    handler({ caller, params }) {
      const model = models.find(params.model_name, caller.account);
      if (!model || !isListed(caller.models, model)) throw new ModelNotFound(params.model_name);
      return renderModel(model);
    },
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
