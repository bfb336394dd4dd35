import type { AccountId, KeyId } from "../../proto/ids.ts";
import { looksLikeApiKey } from "./api-key.ts";
import { type AccountSecrets, lookupOf } from "./envelope.ts";
import type { AccountStore } from "./store.ts";

/**
 * A key of the caller's own account, named by its secret or its id; a revoked one too, which opens nothing but its usage.
 * Undefined for any other, another tenant's included.
 */
export function findOwnKey(
  deps: { readonly store: Pick<AccountStore, "findAnyOwnKey">; readonly secrets: AccountSecrets },
  account: AccountId,
  secretOrId: string,
): Promise<KeyId | undefined> {
  const named = looksLikeApiKey(secretOrId)
    ? { lookup: lookupOf(deps.secrets, secretOrId) }
    : { key: secretOrId as KeyId };
  return deps.store.findAnyOwnKey(account, named);
}
