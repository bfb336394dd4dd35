// Brings a database to this version's schema. How a migration is written: docs/checklists/migration.md.
import { type Kysely, sql } from "kysely";
import { type Migration, Migrator } from "kysely/migration";
import type { Logger } from "pino";
import * as baseline from "../migrations/0041-baseline.ts";
import * as schemaRequirement from "../migrations/0042-schema-requirement.ts";
import * as refusedFloor from "../migrations/0043-refused-floor.ts";
import { ensureMoneyMonths } from "../money/money-months.ts";
import { openDatabase } from "./database.ts";
import { MigrationRefused, type SchemaState, schemaSteps } from "./migration-history.ts";
import type { Database } from "./schema.ts";

/** In order. Imported by name, so that only reviewed files run. Each number is above the highest one before it. */
const migrations: Record<string, Migration> = {
  "0041-baseline": baseline,
  "0042-schema-requirement": schemaRequirement,
  "0043-refused-floor": refusedFloor,
};

export { MigrationRefused };

/**
 * Brings the database at `url` to this version's schema. When several control planes start at once, one migrates and the others
 * wait for its advisory lock. A newer schema that still supports this version is left as it is. Throws MigrationRefused when the
 * schema supports this version no more, or is older than the baseline.
 */
export async function migrateDatabase(url: string, options: { readonly log: Logger }): Promise<void> {
  // Migrating a large table, and waiting for another control plane that does, take longer than any request may.
  const { db, close } = openDatabase(url, {
    maxConnections: 1,
    log: options.log,
    statementTimeoutMs: 0,
    connectTimeoutMs: 10_000,
  });
  try {
    // Migrations are history: they name tables and columns as PostgreSQL does.
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

async function migrateLocked(db: Kysely<Database>, log: Logger): Promise<void> {
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
  // Before the first account's credit is posted: a month that has a row in the default partition stays there whole.
  if (results?.length) await ensureMoneyMonths(db, new Date());
}

async function readState(db: Kysely<Database>): Promise<SchemaState> {
  const isThere = async (table: string) =>
    (await sql<{ found: boolean }>`select to_regclass(${table}) is not null as found`.execute(db)).rows[0]?.found;
  const applied = (await isThere("kysely_migration"))
    ? (await sql<{ name: string }>`select name from kysely_migration order by name`.execute(db)).rows
    : [];
  const required = (await isThere("schema_requirement"))
    ? (await sql<{ migration: string }>`select migration from schema_requirement`.execute(db)).rows[0]?.migration
    : undefined;
  return { applied: applied.map(({ name }) => name), required };
}

/** The schema is the baseline's already: only the history changes. */
async function adoptBaseline(db: Kysely<Database>, name: string, log: Logger): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await sql`delete from kysely_migration`.execute(trx);
    await sql`insert into kysely_migration (name, timestamp) values (${name}, ${new Date().toISOString()})`.execute(
      trx,
    );
  });
  log.info({ migration: name, status: "Adopted" }, "migration");
}
