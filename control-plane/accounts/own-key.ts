import type { AccountId, KeyId } from "../../proto/ids.ts";
import { looksLikeApiKey } from "./api-key.ts";
import { type AccountSecrets, lookupOf } from "./envelope.ts";
import type { AccountStore } from "./store.ts";

/** A live key of the caller's own account, named by its secret or its id. Undefined for any other, another tenant's included. */
export async function findOwnKey(
  deps: { readonly store: AccountStore; readonly secrets: AccountSecrets },
  account: AccountId,
  secretOrId: string,
): Promise<KeyId | undefined> {
  if (!looksLikeApiKey(secretOrId)) return (await deps.store.findOwnKey(account, secretOrId as KeyId))?.key;
  const row = await deps.store.findKey(lookupOf(deps.secrets, secretOrId));
  return row?.account.account === account ? row.key : undefined;
}
