import type { Responses } from "../../proto/gen/responses.ts";
import type { Api } from "../api/client.ts";

export type ModelSummary = Responses["GET /models/list"][number];

/** Public models and the models of the account's deployments. */
export async function usableModels(api: Api): Promise<readonly ModelSummary[]> {
  const lists = await Promise.all(
    ["/models/list", "/models/deployment/list"].map((path) => api.call<readonly ModelSummary[]>("GET", path)),
  );
  return [...new Map(lists.flat().map((model) => [model.model_name, model])).values()];
}
