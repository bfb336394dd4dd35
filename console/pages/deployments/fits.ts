// Dry runs of a deployment on several GPU types.
import { useQueries } from "@tanstack/react-query";
import type { Responses } from "../../../proto/gen/responses.ts";
import { ApiError } from "../../api/client.ts";
import { useApi } from "../../api/context.ts";
import { type DeployForm, faultsOf, requestOf } from "../../domain/new-deployment.ts";

export type Fit = Responses["POST /deploy/llm/placement"];

export interface Check {
  /** `unknown`: the GPUs are free, but the hub cannot be reached to check the repository. */
  readonly state: "incomplete" | "unknown" | "checking" | "fits" | "misfit" | "refused";
  readonly fit?: Fit | undefined;
  readonly error?: ApiError | undefined;
}

/** More types than these are not checked at once. */
const maxTypes = 16;

/** By GPU type. `owner`: account name, for a name that is free, or the whole name. */
export function useFits(
  form: DeployForm,
  owner: string,
  types: readonly { readonly gpu: string }[],
): ReadonlyMap<string, Check> {
  const api = useApi();
  const name = owner.includes("/") ? owner : `${owner}/fit-check`;
  const checked = types.slice(0, maxTypes);
  const of = (gpu: string) => ({ ...form, name, gpu });
  const results = useQueries({
    queries: checked.map(({ gpu }) => {
      const { path, body } = requestOf(of(gpu));
      const placement = `${path.replace(/\/$/, "")}/placement`;
      return {
        queryKey: [`POST ${placement}`, body],
        queryFn: () => api.call<Fit>("POST", placement, body),
        enabled: Object.keys(faultsOf(of(gpu))).length === 0,
        staleTime: 15_000,
        refetchOnWindowFocus: false,
      };
    }),
  });
  return new Map(
    checked.map(({ gpu }, index): [string, Check] => {
      const { data, error } = results[index] ?? {};
      if (Object.keys(faultsOf(of(gpu))).length > 0) return [gpu, { state: "incomplete" }];
      if (error)
        return [gpu, { state: "refused", error: error instanceof ApiError ? error : new ApiError(String(error), 0) }];
      if (!data) return [gpu, { state: "checking" }];
      if (!data.fits) return [gpu, { state: "misfit", fit: data }];
      return [gpu, { state: data.repository === "unknown" ? "unknown" : "fits", fit: data }];
    }),
  );
}

/** `isSettled`: the check is of what the form holds now. */
export const checkOf = (check: Check | undefined, isSettled: boolean): Check =>
  check === undefined || !isSettled ? { ...check, state: "checking" } : check;

/** The field of the form that an error of the server is about. */
export function fieldOf(error: ApiError | undefined): "source" | "args" | "name" | "scale" | "other" | undefined {
  if (!error) return undefined;
  const [, field = ""] = /^([a-z_]+)(?:\.[\w.]+)?:/.exec(error.message) ?? [];
  if (error.code === "extra_arg_refused" || field === "extra_args" || field === "standard_args") return "args";
  if (field === "hf" || error.code === "model_not_found" || field === "base_model") return "source";
  if (field === "model_name" || error.code === "deployment_name_taken") return "name";
  if (field === "settings") return "scale";
  return "other";
}
