import type { ServedModel } from "../catalog/served-model.ts";

/**
 * True if a token restricted to `models` (null: any) may use this model, requested as `requested`: by its exact name, or in another
 * form (`NAME:VERSION`, `deploy_id:ID`) of a listed name. Never by a part of a name.
 */
export function mayUse(
  models: ReadonlySet<string> | null,
  model: Pick<ServedModel, "name"> | undefined,
  requested: string,
): boolean {
  return models === null || models.has(requested) || (model !== undefined && models.has(model.name));
}

/** True if any form of the model's name is listed. */
export function isListed(
  models: ReadonlySet<string> | null,
  { name, version, deployId, adapter }: Pick<ServedModel, "name" | "version" | "deployId" | "adapter">,
): boolean {
  const id = adapter?.id ?? deployId;
  return models === null || [name, `${name}:${version}`, `deploy_id:${id}`].some((one) => models.has(one));
}
