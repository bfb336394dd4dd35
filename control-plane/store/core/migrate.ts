// Migrates a database to this version's schema. To write a migration, see docs/checklists/migration.md.
import { sql } from "kysely";
import { type Migration, Migrator } from "kysely/migration";
import type { Logger } from "pino";
import * as baseline from "../migrations/0041-baseline.ts";
import * as schemaRequirement from "../migrations/0042-schema-requirement.ts";
import * as refusedFloor from "../migrations/0043-refused-floor.ts";
import * as settle from "../migrations/0044-settle.ts";
import * as modelAlias from "../migrations/0045-model-alias.ts";
import { ensureMoneyMonths } from "../money/money-months.ts";
import { openDatabase } from "./database.ts";
import { MigrationRefused, type SchemaState, schemaSteps } from "./migration-history.ts";
import type { Db } from "./schema.ts";

/** In order. Imported by name, so that only reviewed files run. Each number is above the highest one before it. */
const migrations: Record<string, Migration> = {
  "0041-baseline": baseline,
  "0042-schema-requirement": schemaRequirement,
  "0043-refused-floor": refusedFloor,
  "0044-settle": settle,
  "0045-model-alias": modelAlias,
};

export { MigrationRefused };

/**
 * Migrates the database at `url` to this version's schema. When several control planes start at once, one migrates and the others
 * wait for its advisory lock. A newer schema that still supports this version is unchanged. Throws MigrationRefused when the
 * schema no longer supports this version, or is older than the baseline.
 */
export async function migrateDatabase(url: string, options: { readonly log: Logger }): Promise<void> {
  // Migrating a large table, or waiting for another control plane to do so, exceeds the time limits of requests.
  const { db, close } = openDatabase(url, {
    maxConnections: 1,
    log: options.log,
    statementTimeoutMs: 0,
    connectTimeoutMs: 10_000,
  });
  try {
    // Migrations use PostgreSQL's names of tables and columns.
    await db
      .withoutPlugins()
      .connection()
      .execute(async (connection) => {
        // Kysely takes the same lock again; it is counted per session. The checks below need it too.
        const { adapter } = connection.getExecutor();
        const lock = { lockTable: "kysely_migration_lock", lockRowId: "migration_lock" };
        await adapter.acquireMigrationLock(connection, lock);
        try {
          await migrateLocked(connection, options.log);
        } finally {
          await adapter.releaseMigrationLock(connection, lock);
        }
      });
  } finally {
    await close();
  }
}

async function migrateLocked(db: Db, log: Logger): Promise<void> {
  const known = Object.keys(migrations);
  const steps = schemaSteps(known, await readState(db));
  if (steps.kind === "supported") {
    log.warn({ migrations: steps.unknown }, "the database is newer than this version, and supports it");
    return;
  }
  if (steps.kind === "adopt-baseline") await adoptBaseline(db, steps.baseline, log);
  const migrator = new Migrator({ db, provider: { getMigrations: async () => migrations } });
  const { error, results } = await migrator.migrateToLatest();
  for (const result of results ?? []) log.info({ migration: result.migrationName, status: result.status }, "migration");
  if (error !== undefined) throw error;
  // Before the first ledger entry: a month with a row in the default partition gets no partition of its own.
  if (results?.length) await ensureMoneyMonths(db, new Date());
}

async function readState(db: Db): Promise<SchemaState> {
  const exists = async (table: string) =>
    (await sql<{ found: boolean }>`select to_regclass(${table}) is not null as found`.execute(db)).rows[0]?.found;
  const applied = (await exists("kysely_migration"))
    ? (await sql<{ name: string }>`select name from kysely_migration order by name`.execute(db)).rows
    : [];
  const required = (await exists("schema_requirement"))
    ? (await sql<{ migration: string }>`select migration from schema_requirement`.execute(db)).rows[0]?.migration
    : undefined;
  return { applied: applied.map(({ name }) => name), required };
}

/** Rewrites the history only: the schema already equals the baseline. */
async function adoptBaseline(db: Db, name: string, log: Logger): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await sql`delete from kysely_migration`.execute(trx);
    await sql`insert into kysely_migration (name, timestamp) values (${name}, ${new Date().toISOString()})`.execute(
      trx,
    );
  });
  log.info({ migration: name, status: "Adopted" }, "migration");
}
