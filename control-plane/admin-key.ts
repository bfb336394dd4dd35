// Creates a new key for the oldest operator's account, with the database and the secrets only: for an operator who lost the key.
// Run by `stoker admin key`, also beside a running control plane, which receives the key by the change feed.
import { pino } from "pino";
import { createApiTokens } from "./accounts/api-tokens.ts";
import { checkSecrets } from "./accounts/check-secrets.ts";
import { createDataKeys } from "./accounts/data-keys.ts";
import { replaceAdminKey } from "./accounts/replace-admin-key.ts";
import { readSecretFiles } from "./accounts/secret-files.ts";
import { bySystem } from "./act.ts";
import { readConfig } from "./config.ts";
import { createAccountStore } from "./store/accounts/accounts-store.ts";
import { createAdminStore } from "./store/accounts/admin-store.ts";
import { createTokenStore } from "./store/accounts/tokens-store.ts";
import { openDatabase, pingDatabase } from "./store/core/database.ts";
import { DatabaseNotReached, waitForDatabase } from "./wiring/database.ts";
import { exitWithError } from "./wiring/process.ts";

async function main(): Promise<void> {
  const config = readConfig(process.env);
  const log = pino({ level: "silent" });
  const { db, close } = openDatabase(config.databaseUrl, { maxConnections: 2, log });
  try {
    const store = createAccountStore(db);
    const url = config.databaseUrl;
    const waiting = { url, limitMs: 5_000, log, signal: AbortSignal.timeout(30_000) };
    await waitForDatabase(() => pingDatabase(db), waiting);
    const account = await createAdminStore(db).firstAdmin();
    const secrets = readSecretFiles(config.secretsDir, true);
    await checkSecrets(store, secrets);
    const tokens = createApiTokens({
      store: { ...createTokenStore(db), findKey: store.findKey },
      dataKeys: createDataKeys({ store, secrets }),
      secrets,
    });
    const made = await replaceAdminKey(
      { tokens, account, act: bySystem("stoker admin key, on the host") },
      { file: config.adminKeyFile, revokesOthers: process.argv.includes("--revoke-others") },
    );
    process.stdout.write(`${made}\n`);
  } finally {
    await close();
  }
}

await main().catch((error: unknown) => {
  if (!(error instanceof DatabaseNotReached)) return exitWithError(error);
  process.stderr.write(
    `${error.message} Under ./scripts/up PostgreSQL runs only as long as it does: start it elsewhere, then run this again.\n`,
  );
  // Exit code of the CLI for temporary failures.
  process.exit(7);
});
