// Creates a new key for the oldest operator's account, with the database and the secrets only: for an operator who lost the key.
// Run by `stoker admin key`, also beside a running control plane, which receives the key by the change feed.
import { createApiTokens } from "./accounts/api-tokens.ts";
import { createDataKeys } from "./accounts/data-keys.ts";
import { replaceAdminKey } from "./accounts/replace-admin-key.ts";
import { bySystem } from "./act.ts";
import { keyMonthBudget } from "./billing/scopes.ts";
import { createAdminStore } from "./store/accounts/admin-store.ts";
import { createTokenStore } from "./store/accounts/tokens-store.ts";
import { runOperatorCommand } from "./wiring/operator-command.ts";

await runOperatorCommand(async ({ config, db, store, secrets }) => {
  const account = await createAdminStore(db).firstAdmin();
  const tokens = createApiTokens({
    store: { ...createTokenStore(db), findKey: store.findKey },
    dataKeys: createDataKeys({ store, secrets }),
    secrets,
    monthOf: keyMonthBudget,
  });
  return replaceAdminKey(
    { tokens, account, act: bySystem("stoker admin key, on the host") },
    { file: config.adminKeyFile, revokesOthers: process.argv.includes("--revoke-others") },
  );
});
