import type { ServedModel } from "../catalog/served-model.ts";

/**
 * Whether a token that is restricted to `models` (null: any) may use this one, asked for as `requested`: by its exact name,
 * or in another spelling (`NAME:VERSION`, `deploy_id:ID`) of a name that is listed. Never by a part of a name.
 */
export function mayUse(
  models: ReadonlySet<string> | null,
  model: Pick<ServedModel, "name"> | undefined,
  requested: string,
): boolean {
  return models === null || models.has(requested) || (model !== undefined && models.has(model.name));
}

/** Whether any spelling of the model is listed. */
export function isListed(
  models: ReadonlySet<string> | null,
  { name, version, deployId, adapter }: Pick<ServedModel, "name" | "version" | "deployId" | "adapter">,
): boolean {
  const id = adapter?.id ?? deployId;
  return models === null || [name, `${name}:${version}`, `deploy_id:${id}`].some((one) => models.has(one));
}
