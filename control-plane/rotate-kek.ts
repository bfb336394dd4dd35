// Makes the next key-encryption key and re-wraps all data keys with it. Run by `stoker admin rotate-kek`, on a host that has
// the secrets, while control planes run or not; run again, it goes on where it was stopped.
import { pino } from "pino";
import { checkSecrets } from "./accounts/check-secrets.ts";
import { resealers, rotationReport } from "./accounts/kek-rotation.ts";
import { rotateKek } from "./accounts/rotate-kek.ts";
import { readSecretFiles } from "./accounts/secret-files.ts";
import { bySystem } from "./act.ts";
import { readConfig } from "./config.ts";
import { createAccountStore } from "./store/accounts/accounts-store.ts";
import { openDatabase, pingDatabase } from "./store/core/database.ts";
import { createKekStore } from "./store/core/kek-store.ts";
import { DatabaseNotReached, waitForDatabase } from "./wiring/database.ts";
import { exitWithError } from "./wiring/process.ts";

async function main(): Promise<void> {
  const config = readConfig(process.env);
  const log = pino({ level: "silent" });
  // A count over many accounts may take longer than what a request is given.
  const { db, close } = openDatabase(config.databaseUrl, { maxConnections: 2, statementTimeoutMs: 60_000, log });
  try {
    const url = config.databaseUrl;
    const waiting = { url, limitMs: 5_000, log, signal: AbortSignal.timeout(30_000) };
    await waitForDatabase(() => pingDatabase(db), waiting);
    const secrets = readSecretFiles(config.secretsDir, true);
    await checkSecrets(createAccountStore(db), secrets);
    const rotation = await rotateKek(
      {
        store: createKekStore(db),
        secrets,
        reseal: resealers(secrets),
        act: bySystem("stoker admin rotate-kek, on the host"),
        print: (line) => void process.stderr.write(`${line}\n`),
      },
      { waitMs: 60_000, pollMs: 250, aliveMs: 30_000, batch: 500 },
    );
    const report = rotationReport(rotation, secrets);
    process.stdout.write(`${report.text}\n`);
    if (!report.isWhole) process.exitCode = 1;
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
