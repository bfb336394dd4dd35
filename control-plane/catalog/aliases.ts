// Reads and changes of aliases.
import type { AccountId } from "../../proto/ids.ts";
import { conflict, invalid, notFound } from "../service-error.ts";
import type { AliasEditor, ModelAlias } from "./model-alias.ts";
import type { AliasStore } from "./store.ts";

export const maxAliases = 200;

export const aliasNotFound = (name: string) =>
  notFound("alias_not_found", `Alias ${JSON.stringify(name)} not found. GET /v1/model-aliases lists the aliases.`);

const aliasesFull = () =>
  conflict("too_many_aliases", `At most ${maxAliases} aliases are allowed. Delete one that is unused.`);

const weightsAllZero = () =>
  invalid("weights_all_zero", "At least one target must have a weight above 0.", { param: "targets" });

const targetUnknown = (model: string) =>
  invalid(
    "alias_target_unknown",
    `Model ${JSON.stringify(model)} not found. Targets and fallbacks are models, not aliases.`,
    {
      param: "targets",
    },
  );

export interface Aliases {
  /** The account's own and those of operators, by name. */
  list(account: AccountId): Promise<readonly ModelAlias[]>;
  /** Throws aliasNotFound. */
  find(scope: AccountId | null, name: string): Promise<ModelAlias>;
  /** Creates or replaces it. Throws errors for unknown targets, weights that are all 0, and too many aliases. */
  put(editor: AliasEditor, alias: Pick<ModelAlias, "name" | "targets" | "fallbacks" | "isSticky">): Promise<ModelAlias>;
  /** Throws aliasNotFound. */
  remove(editor: AliasEditor, name: string): Promise<void>;
}

export interface AliasDeps {
  readonly store: AliasStore;
  /** True for a model that this account may call under that name; null: that every account may call. */
  readonly isModel: (name: string, account: AccountId | null) => boolean;
  /** Makes the change visible to the next request at this replica. */
  readonly refresh: () => Promise<void>;
}

export function createAliases({ store, isModel, refresh }: AliasDeps): Aliases {
  return {
    list: (account) => store.list(account),
    async find(scope, name) {
      const alias = await store.find(scope, name);
      if (!alias) throw aliasNotFound(name);
      return alias;
    },
    async put(editor, alias) {
      if (alias.targets.every(({ weight }) => weight === 0)) throw weightsAllZero();
      for (const name of [...alias.targets.map(({ model }) => model), ...alias.fallbacks])
        if (!isModel(name, editor.scope)) throw targetUnknown(name);
      const stored = await store.put(editor, alias, maxAliases);
      if (!stored) throw aliasesFull();
      await refresh();
      return stored;
    },
    async remove(editor, name) {
      if (!(await store.remove(editor, name))) throw aliasNotFound(name);
      await refresh();
    },
  };
}
