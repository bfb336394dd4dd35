// Finds the model or adapter that a request's `model` names: the model itself, or an adapter by its own name or as
// `<model>:<adapter>`. An unknown name means the model: callers use their own names for it.
import { RequestError } from "./request-error.ts";

export interface ServedModel {
  /** As the answer shows it. */
  readonly name: string;
  readonly adapter: string | undefined;
}

export interface Loaded {
  readonly model: string;
  readonly adapters: readonly string[];
  /** Adapters that were unloaded: a request for one is refused, never served by the bare model. */
  readonly former: ReadonlySet<string>;
}

/** Throws RequestError 404. */
export function servedModel(asked: unknown, { model, adapters, former }: Loaded): ServedModel {
  if (typeof asked !== "string" || asked === model) return { name: model, adapter: undefined };
  const isQualified = asked.startsWith(`${model}:`);
  const adapter = isQualified ? asked.slice(model.length + 1) : asked;
  if (adapters.includes(adapter)) return { name: asked, adapter };
  if (isQualified || former.has(adapter))
    throw new RequestError(404, `the adapter ${adapter} is not loaded on this instance`, {
      param: "model",
      code: "model_not_found",
    });
  return { name: model, adapter: undefined };
}
