// Commands that an operator runs on a host with the database and the secrets, while control planes run or not.
import { pino } from "pino";
import { checkSecrets } from "../accounts/check-secrets.ts";
import { readSecretFiles } from "../accounts/secret-files.ts";
import { readConfig } from "../config.ts";
import { createAccountStore } from "../store/accounts/accounts-store.ts";
import { openDatabase, pingDatabase } from "../store/core/database.ts";
import { DatabaseNotReached, waitForDatabase } from "./database.ts";
import { exitWithError } from "./process.ts";

/** Runs `work` with the open database and the checked secrets, and prints its result. Exits after an error. */
export async function runOperatorCommand(
  work: (parts: Awaited<ReturnType<typeof openParts>>) => Promise<string>,
  options: { readonly statementTimeoutMs?: number } = {},
): Promise<void> {
  try {
    const parts = await openParts(options);
    try {
      process.stdout.write(`${await work(parts)}\n`);
    } finally {
      await parts.close();
    }
  } catch (error) {
    if (!(error instanceof DatabaseNotReached)) return exitWithError(error);
    process.stderr.write(
      `${error.message} Under ./scripts/up PostgreSQL runs only as long as it does: start it elsewhere, then run this again.\n`,
    );
    // Exit code of the CLI for temporary failures.
    process.exit(7);
  }
}

async function openParts(options: { readonly statementTimeoutMs?: number }) {
  const config = readConfig(process.env);
  const url = config.databaseUrl;
  const log = pino({ level: "silent" });
  const { db, close } = openDatabase(url, { maxConnections: 2, ...options, log });
  try {
    const store = createAccountStore(db);
    const signal = AbortSignal.timeout(30_000);
    await waitForDatabase(() => pingDatabase(db), { url, limitMs: 5_000, log, signal });
    const secrets = readSecretFiles(config.secretsDir, true);
    await checkSecrets(store, secrets);
    return { config, db, store, secrets, close };
  } catch (error) {
    await close();
    throw error;
  }
}
