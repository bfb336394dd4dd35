// Models to try for a request, in order: those of an alias or the requested one, then the fallbacks of the request.
import type { AccountId } from "../../proto/ids.ts";
import type { Caller } from "../accounts/caller.ts";
import { type ModelAlias, modelsOf } from "../catalog/model-alias.ts";
import type { ModelDirectory } from "../catalog/served-model.ts";
import type { Completion } from "./completion.ts";
import { hashSeed, hashText, mixed } from "./hash.ts";
import { usablePart } from "./may-use.ts";

/** The first is `completion` itself unless it names an alias, of which the caller gets the models that it may use. `random`: a number from 0 up to, not including, 1. */
export function candidatesOf(
  models: Pick<ModelDirectory, "aliasOf" | "resolveModel">,
  { account, models: allowed }: Pick<Caller, "account" | "models">,
  completion: Completion,
  random: () => number = Math.random,
): readonly Completion[] {
  if (!completion.fallbacks && !models.aliasOf(completion.model, account)) return [completion];
  const names = [completion.model, ...(completion.fallbacks ?? [])];
  return names.flatMap((name, place) => {
    const alias = models.aliasOf(name, account);
    if (!alias) return [place === 0 ? completion : { ...completion, model: name, isRebuilt: true }];
    const unit = alias.isSticky ? conversationUnit(alias, account, completion, random) : random();
    const usable = usablePart(allowed, alias, (model) => models.resolveModel(model, account));
    return modelsOf(usable, unit).map((model) => ({ ...completion, model, alias: name, isRebuilt: true }));
  });
}

/** The same number for every turn of a conversation. Replicas need no shared state for it. */
function conversationUnit(
  { name }: ModelAlias,
  account: AccountId,
  completion: Completion,
  random: () => number,
): number {
  const text = conversationOf(completion);
  if (text === undefined) return random();
  return mixed(hashText(text, hashText(name, hashText(account, hashSeed)))) / 2 ** 32;
}

/** Text of a conversation that its later turns repeat; undefined for a request of another kind. */
function conversationOf({ cacheKey, fields, kind }: Completion): string | undefined {
  if (cacheKey) return cacheKey;
  if (kind !== "chat") return undefined;
  const messages = fields["messages"] as readonly { readonly role?: unknown }[];
  const firstUser = messages.findIndex(({ role }) => role === "user");
  return JSON.stringify(messages.slice(0, firstUser + 1));
}
