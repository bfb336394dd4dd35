// The feature of aliases over a list in memory.
import { type Aliases, createAliases } from "../../control-plane/catalog/aliases.ts";
import type { ModelAlias } from "../../control-plane/catalog/model-alias.ts";
import type { AccountId } from "../../proto/ids.ts";

interface Models {
  named: ModelAlias[];
  resolveModel(name: string, account: AccountId): unknown;
}

export function fakeAliases(models: Models): Aliases {
  const isOf = (scope: AccountId | null, name: string) => (one: ModelAlias) =>
    one.account === scope && one.name === name;
  return createAliases({
    isModel: (name, account) => models.resolveModel(name, account ?? ("" as AccountId)) !== undefined,
    refresh: async () => {},
    store: {
      list: async (account) => models.named.filter((one) => one.account === null || one.account === account),
      find: async (scope, name) => models.named.find(isOf(scope, name)),
      async put({ scope }, alias, maxCount) {
        const others = models.named.filter((one) => !isOf(scope, alias.name)(one));
        if (others.filter(({ account }) => account === scope).length >= maxCount) return undefined;
        const stored = { ...alias, account: scope, updatedAtMs: 1_786_000_000_000 };
        models.named = [...others, stored];
        return stored;
      },
      async remove({ scope }, name) {
        const left = models.named.filter((one) => !isOf(scope, name)(one));
        const isFound = left.length < models.named.length;
        models.named = left;
        return isFound;
      },
    },
  });
}
