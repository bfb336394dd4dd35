import type { Api } from "./api.ts";

export interface ModelSummary {
  readonly model_name: string;
  readonly type: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly pricing: { readonly short: string; readonly full: string };
  readonly max_tokens: number | null;
  readonly replaced_by: string | null;
  /** Unix seconds. */
  readonly deprecated: number | null;
  readonly quantization: string | null;
  readonly private: number;
}

/** Models offered to everybody and those of the account's own deployments. */
export async function usableModels(api: Api): Promise<readonly ModelSummary[]> {
  const lists = await Promise.all(
    ["/models/list", "/models/deployment/list"].map((path) => api.call<readonly ModelSummary[]>("GET", path)),
  );
  return [...new Map(lists.flat().map((model) => [model.model_name, model])).values()];
}

export const takesChats = ({ type }: ModelSummary): boolean => type === "text-generation";
