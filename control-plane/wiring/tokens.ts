// API keys and scoped tokens put together.
import { createApiTokens } from "../accounts/api-tokens.ts";
import { createDataKeys } from "../accounts/data-keys.ts";
import type { AccountSecrets } from "../accounts/envelope.ts";
import { createIdempotency } from "../accounts/idempotency.ts";
import { createScopedJwts } from "../accounts/scoped-jwt.ts";
import type { AccountStore } from "../accounts/store.ts";
import type { OpenDatabase } from "../store/database.ts";
import { createIdempotencyStore } from "../store/idempotency-store.ts";
import { createTokenStore } from "../store/tokens-store.ts";

export function createTokens(deps: {
  readonly db: OpenDatabase["db"];
  readonly accountStore: AccountStore;
  readonly secrets: AccountSecrets;
}) {
  const { accountStore, secrets } = deps;
  const store = { ...accountStore, ...createTokenStore(deps.db) };
  const dataKeys = createDataKeys({ store: accountStore, secrets });
  return {
    tokens: createApiTokens({ store, dataKeys, secrets }),
    scopedJwts: createScopedJwts({ store, secrets }),
    idempotency: createIdempotency({ store: createIdempotencyStore(deps.db), dataKeys }),
  };
}
