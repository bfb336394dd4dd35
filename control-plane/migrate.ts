// Migrates the database to this version's schema and exits. Control planes do it at their start too; run it before an upgrade where many
// of them start at once. Control planes of the previous release keep running on the newer schema.
import { pino } from "pino";
import { readConfig } from "./config.ts";
import { migrateDatabase } from "./store/core/migrate.ts";
import { waitForDatabase } from "./wiring/database.ts";
import { exitWithError, stopSignal } from "./wiring/process.ts";

async function main(): Promise<void> {
  const { databaseUrl, databaseWaitMs, logLevel } = readConfig(process.env);
  const log = pino({ level: logLevel }, pino.destination({ dest: 1, sync: true }));
  const signal = stopSignal({ withParent: false, log });
  const waiting = { url: databaseUrl, limitMs: databaseWaitMs, log, signal };
  await waitForDatabase(() => migrateDatabase(databaseUrl, { log, signal }), waiting);
  log.info("the database has this version's schema");
}

await main().catch(exitWithError);
