import type { ModelAlias } from "../catalog/model-alias.ts";
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

/**
 * Returns the targets and fallbacks of an alias that a token restricted to `models` may use: all of them if it lists the alias, or
 * may use none, which admission then refuses.
 */
export function usablePart(
  models: ReadonlySet<string> | null,
  alias: ModelAlias,
  resolve: (name: string) => Pick<ServedModel, "name"> | undefined,
): ModelAlias {
  if (models === null || models.has(alias.name)) return alias;
  const isUsable = (name: string) => mayUse(models, resolve(name), name);
  const targets = alias.targets.filter(({ model }) => isUsable(model));
  const fallbacks = alias.fallbacks.filter(isUsable);
  return targets.length + fallbacks.length === 0 ? alias : { ...alias, targets, fallbacks };
}

/** True if any form of the model's name is listed. */
export function isListed(
  models: ReadonlySet<string> | null,
  { name, version, deployId, adapter }: Pick<ServedModel, "name" | "version" | "deployId" | "adapter">,
): boolean {
  const id = adapter?.id ?? deployId;
  return models === null || [name, `${name}:${version}`, `deploy_id:${id}`].some((one) => models.has(one));
}
