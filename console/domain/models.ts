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

/** Page of a model. */
export const modelPage = (name: string): string => `/models/${encodeURIComponent(name)}`;

/** Path of the model in the API, whose name may contain slashes. */
export const modelPath = (name: string): string => `/models/${name.split("/").map(encodeURIComponent).join("/")}`;

type Pricing = ModelSummary["pricing"];

/** USD per million tokens. Undefined: it has no such price. */
export function perMillion({ pricing }: Pick<ModelSummary, "pricing">): {
  readonly input: number | undefined;
  readonly output: number | undefined;
} {
  const isByToken = pricing.type === "tokens" || pricing.type === "input_tokens";
  const of = (cents: number | undefined) => (cents === undefined || !isByToken ? undefined : cents * 10_000);
  const { cents_per_input_token: input, cents_per_output_token: output }: Pricing = pricing;
  return { input: of(input), output: of(output) };
}
