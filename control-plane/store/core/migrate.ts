// Migrates a database to this version's schema. To write a migration, see docs/checklists/migration.md.
import { setTimeout as wait } from "node:timers/promises";
import { sql } from "kysely";
import { type Migration, Migrator } from "kysely/migration";
import type { Logger } from "pino";
import { OperatorError } from "../../service-error.ts";
import * as baseline from "../migrations/0041-baseline.ts";
import * as schemaRequirement from "../migrations/0042-schema-requirement.ts";
import * as refusedFloor from "../migrations/0043-refused-floor.ts";
import * as settle from "../migrations/0044-settle.ts";
import * as modelAlias from "../migrations/0045-model-alias.ts";
import * as storedResponse from "../migrations/0046-stored-response.ts";
import * as keyRules from "../migrations/0047-key-rules.ts";
import * as endUsers from "../migrations/0048-end-users.ts";
import * as provider from "../migrations/0049-provider.ts";
import * as instanceFormats from "../migrations/0050-instance-formats.ts";
import * as sleep from "../migrations/0051-sleep.ts";
import * as scaling from "../migrations/0052-scaling.ts";
import * as sleepPrice from "../migrations/0053-sleep-price.ts";
import * as serviceTiers from "../migrations/0054-service-tiers.ts";
import * as instanceAwaited from "../migrations/0055-instance-awaited.ts";
import * as oneMinute from "../migrations/0056-one-minute.ts";
import * as events from "../migrations/0057-events.ts";
import * as series from "../migrations/0058-series.ts";
import * as incidents from "../migrations/0059-incidents.ts";
import * as requestFilters from "../migrations/0060-request-filters.ts";
import * as limitAlerts from "../migrations/0061-limit-alerts.ts";
import * as databaseBackup from "../migrations/0063-database-backup.ts";
import * as serverBatch from "../migrations/0064-server-batch.ts";
import * as accountWeights from "../migrations/0065-account-weights.ts";
import * as usageDays from "../migrations/0066-usage-days.ts";
import * as settleByDay from "../migrations/0067-settle-by-day.ts";
import * as mail from "../migrations/0068-mail.ts";
import * as mailLinks from "../migrations/0069-mail-links.ts";
import * as endUserMonths from "../migrations/0071-end-user-months.ts";
import * as settleEndUserMonths from "../migrations/0072-settle-end-user-months.ts";
import * as sessionOrigin from "../migrations/0074-session-origin.ts";
import * as rejectedRequests from "../migrations/0075-rejected-requests.ts";
import * as terminal from "../migrations/0078-terminal.ts";
import * as signInEpoch from "../migrations/0080-sign-in-epoch.ts";
import * as unsummedEndUsers from "../migrations/0081-unsummed-end-users.ts";
import * as usageRent from "../migrations/0089-usage-rent.ts";
import * as identityProviders from "../migrations/0090-identity-providers.ts";
import * as members from "../migrations/0091-members.ts";
import * as workloadIdentities from "../migrations/0092-workload-identities.ts";
import * as auditChain from "../migrations/0093-audit-chain.ts";
import * as webhookTrace from "../migrations/0094-webhook-trace.ts";
import * as projects from "../migrations/0095-projects.ts";
import * as scim from "../migrations/0096-scim.ts";
import * as workloadIdentityCreator from "../migrations/0097-workload-identity-creator.ts";
import * as identityOwnerLinks from "../migrations/0098-identity-owner-links.ts";
import * as sessionAuthTime from "../migrations/0099-session-auth-time.ts";
import * as projectAlerts from "../migrations/0100-project-alerts.ts";
import * as memberProjects from "../migrations/0101-member-projects.ts";
import * as usageRetention from "../migrations/0102-usage-retention.ts";
import * as expiredUsage from "../migrations/0103-expired-usage.ts";
import * as waitingEvents from "../migrations/0104-waiting-events.ts";
import * as givenProjects from "../migrations/0105-given-projects.ts";
import * as usageSeals from "../migrations/0106-usage-seals.ts";
import * as resumableStreams from "../migrations/0107-resumable-streams.ts";
import { ensureMoneyMonths } from "../money/money-months.ts";
import { openDatabase } from "./database.ts";
import { codeOf } from "./outage.ts";
import type { Db } from "./schema.ts";

/** In order. Imported by name, so that only reviewed files run. Each number is above the highest one before it. */
const migrations: Record<string, Migration> = {
  "0041-baseline": baseline,
  "0042-schema-requirement": schemaRequirement,
  "0043-refused-floor": refusedFloor,
  "0044-settle": settle,
  "0045-model-alias": modelAlias,
  "0046-stored-response": storedResponse,
  "0047-key-rules": keyRules,
  "0048-end-users": endUsers,
  "0049-provider": provider,
  "0050-instance-formats": instanceFormats,
  "0051-sleep": sleep,
  "0052-scaling": scaling,
  "0053-sleep-price": sleepPrice,
  "0054-service-tiers": serviceTiers,
  "0055-instance-awaited": instanceAwaited,
  "0056-one-minute": oneMinute,
  "0057-events": events,
  "0058-series": series,
  "0059-incidents": incidents,
  "0060-request-filters": requestFilters,
  "0061-limit-alerts": limitAlerts,
  "0063-database-backup": databaseBackup,
  "0064-server-batch": serverBatch,
  "0065-account-weights": accountWeights,
  "0066-usage-days": usageDays,
  "0067-settle-by-day": settleByDay,
  "0068-mail": mail,
  "0069-mail-links": mailLinks,
  "0071-end-user-months": endUserMonths,
  "0072-settle-end-user-months": settleEndUserMonths,
  "0074-session-origin": sessionOrigin,
  "0075-rejected-requests": rejectedRequests,
  "0078-terminal": terminal,
  "0080-sign-in-epoch": signInEpoch,
  "0081-unsummed-end-users": unsummedEndUsers,
  "0089-usage-rent": usageRent,
  "0090-identity-providers": identityProviders,
  "0091-members": members,
  "0092-workload-identities": workloadIdentities,
  "0093-audit-chain": auditChain,
  "0094-webhook-trace": webhookTrace,
  "0095-projects": projects,
  "0096-scim": scim,
  "0097-workload-identity-creator": workloadIdentityCreator,
  "0098-identity-owner-links": identityOwnerLinks,
  "0099-session-auth-time": sessionAuthTime,
  "0100-project-alerts": projectAlerts,
  "0101-member-projects": memberProjects,
  "0102-usage-retention": usageRetention,
  "0103-expired-usage": expiredUsage,
  "0104-waiting-events": waitingEvents,
  "0105-given-projects": givenProjects,
  "0106-usage-seals": usageSeals,
  "0107-resumable-streams": resumableStreams,
};

/** Wait for a lock in the first attempt; doubled in each one until `lockTimeoutMs`. */
const firstLockTimeoutMs = 200;

interface MigrateOptions {
  readonly log: Logger;
  /**
   * Maximum wait for one lock: requests of running control planes queue behind it. The default is above PostgreSQL's deadlock_timeout,
   * after which an autovacuum that holds the lock is cancelled.
   */
  readonly lockTimeoutMs?: number;
  /** Maximum time of all attempts to get the locks, and maximum wait for another control plane that migrates. */
  readonly maxWaitMs?: number;
  /** Ends the pauses between attempts. */
  readonly signal?: AbortSignal;
}

type Waits = Required<Omit<MigrateOptions, "signal">> & Pick<MigrateOptions, "signal">;

/**
 * Migrates the database at `url` to this version's schema. When several control planes start at once, one migrates and the others
 * wait for its advisory lock. A newer schema that still supports this version is unchanged. Throws MigrationRefused when the
 * schema no longer supports this version, is older than the baseline, or is locked by others for too long.
 */
export async function migrateDatabase(url: string, options: MigrateOptions): Promise<void> {
  const { log, lockTimeoutMs = 1_200, maxWaitMs = 600_000, signal } = options;
  // Migrating a large table, or waiting for another control plane to do so, exceeds the time limits of requests.
  const { db, close } = openDatabase(url, {
    maxConnections: 1,
    log,
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
        // Kysely itself waits up to an hour for it.
        await sql`set statement_timeout = ${sql.lit(maxWaitMs)}`.execute(connection);
        await adapter.acquireMigrationLock(connection, lock).catch((error) => {
          throw codeOf(error) === "57014" ? otherMigrates(maxWaitMs, error) : error;
        });
        try {
          await sql`set statement_timeout = 0`.execute(connection);
          await migrateLocked(connection, { log, lockTimeoutMs, maxWaitMs, ...(signal && { signal }) });
        } finally {
          await adapter.releaseMigrationLock(connection, lock);
        }
      });
  } finally {
    await close();
  }
}

async function migrateLocked(db: Db, waits: Waits): Promise<void> {
  const { log } = waits;
  const known = Object.keys(migrations);
  const steps = schemaSteps(known, await readState(db));
  // Kysely reads the columns of all tables before it finds nothing to do: a third of the wait of a start.
  if (steps.kind === "current") return;
  if (steps.kind === "supported") {
    log.warn({ migrations: steps.unknown }, "the database is newer than this version, and supports it");
    return;
  }
  if (steps.kind === "adopt-baseline") await adoptBaseline(db, steps.baseline, log);
  let latest = "";
  const logged = Object.entries(migrations).map(([migration, { up }]) => {
    const loggedUp = async (trx: Db) => {
      latest = migration;
      log.info({ migration }, "migration started");
      await up(trx);
    };
    return [migration, { up: loggedUp }] as const;
  });
  const provider = { getMigrations: async () => Object.fromEntries(logged) };
  const migrator = new Migrator({ db, provider });
  const results = await withLocks(
    db,
    waits,
    () => latest,
    async () => {
      const { error, results = [] } = await migrator.migrateToLatest();
      if (error !== undefined) throw error;
      return results;
    },
  );
  for (const result of results) log.info({ migration: result.migrationName, status: result.status }, "migration");
  // Before the first ledger entry: a month with a row in the default partition gets no partition of its own.
  if (results.length > 0)
    await withLocks(
      db,
      waits,
      () => "of months",
      () => ensureMoneyMonths(db, new Date()),
    );
}

/**
 * Repeats `work`, a transaction, when others hold a lock that it needs for longer than the lock timeout, or deadlock with it. Between two
 * attempts the requests that queued behind it run: at least five times as long as it waited for a lock.
 */
async function withLocks<T>(
  db: Db,
  { log, lockTimeoutMs, maxWaitMs, signal }: Waits,
  migrationOf: () => string,
  work: () => Promise<T>,
): Promise<T> {
  const endMs = performance.now() + maxWaitMs;
  for (let waitMs = firstLockTimeoutMs; ; waitMs *= 2) {
    const limitMs = Math.min(waitMs, lockTimeoutMs);
    try {
      await sql`set lock_timeout = ${sql.lit(limitMs)}`.execute(db);
      return await work();
    } catch (error) {
      if (!isLockedByOthers(error)) throw error;
      const migration = migrationOf();
      const holders = await openTransactions(db);
      if (performance.now() >= endMs) throw lockedByOthers(migration, maxWaitMs, holders, error);
      log.warn({ migration, holders }, "migration could not lock a table, and was undone; will retry");
      await wait(5 * limitMs, undefined, { signal });
    }
  }
}

/** Lock timeout, or a deadlock that ended this transaction. */
const isLockedByOthers = (error: unknown): boolean => ["55P03", "40P01"].includes(codeOf(error));

/** The longest open transactions of others. Queries may contain secrets, so only their connections are named. */
async function openTransactions(db: Db): Promise<readonly string[]> {
  const { rows } = await sql<{ holder: string }>`
    select format('pid %s (%s, %s since %s)', pid, coalesce(nullif(application_name, ''), usename), state,
      to_char(xact_start at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) as holder
    from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null and backend_type = 'client backend'
    order by xact_start limit 3`.execute(db);
  return rows.map(({ holder }) => holder);
}

const otherMigrates = (waitedMs: number, cause: unknown) =>
  new MigrationRefused(
    `Another control plane has been migrating the database for more than ${waitedMs / 1000} s. ` +
      "Read its log; start this one again when it has finished, or end its connection.",
    { cause },
  );

const lockedByOthers = (migration: string, waitedMs: number, holders: readonly string[], cause: unknown) =>
  new MigrationRefused(
    `Migration ${migration} could not lock a table within ${waitedMs / 1000} s; the database is unchanged. ` +
      `End the transactions that hold it (longest open: ${holders.join(", ") || "none any more"}), then start again.`,
    { cause },
  );

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

/** The message says what happened, why, and what to do. */
export class MigrationRefused extends OperatorError {
  override readonly name = "MigrationRefused";
}

interface SchemaState {
  /** Names, sorted. */
  readonly applied: readonly string[];
  /** Oldest migration that a control plane must know to use this schema; set by migrations that remove something. */
  readonly required: string | undefined;
}

type SchemaSteps =
  | { readonly kind: "current" }
  | { readonly kind: "migrate" }
  /** The migrations before the baseline produced the same schema. */
  | { readonly kind: "adopt-baseline"; readonly baseline: string }
  /** A newer version migrated the database, and this version still supports the schema. */
  | { readonly kind: "supported"; readonly unknown: readonly string[] };

/** Migrations whose result is the baseline. None of them was released. */
const beforeBaseline = `
  0001-accounts 0002-money 0003-fleet 0004-deployments 0005-quotas 0006-payments 0007-idempotency 0008-gpu-time 0009-kek
  0010-enrolment 0011-node-facts 0012-agent-instances 0014-node-weights 0015-placement 0016-scaling 0017-adapters
  0018-host-operations 0019-webhooks 0020-files 0021-model-meta 0022-voices 0023-usage-months 0024-standard-args
  0025-webhook-kept 0026-charge-causes 0027-adapter-sources 0031-deployment-use 0033-leases-of-attempts 0034-dashboards
  0035-spec-memory 0036-kept-deployments 0037-usage-quarantine 0038-second-factors 0039-immutable-invoices
  0040-restore-marks 0041-shared-prefix-cache`
  .trim()
  .split(/\s+/);

/** Newest commit whose migrations are those before the baseline. */
const lastBeforeBaseline = "66ab528";

/** Returns the steps for a database in this state, by a version with the migrations `known`, in order. Throws MigrationRefused. */
export function schemaSteps(known: readonly string[], { applied, required }: SchemaState): SchemaSteps {
  const [baseline, newest] = [known[0] ?? "", known.at(-1) ?? ""];
  const early = applied.filter((name) => beforeBaseline.includes(name));
  if (early.length > 0 && early.length === applied.length) {
    if (early.length === beforeBaseline.length) return { kind: "adopt-baseline", baseline };
    throw new MigrationRefused(
      `The database is at migration ${applied.at(-1)}, and this version upgrades from ${beforeBaseline.at(-1)} on. ` +
        `Start commit ${lastBeforeBaseline} of Stoker 0.1.0 on it once, then this version.`,
    );
  }
  const unknown = applied.filter((name) => !known.includes(name));
  const isComplete = known.every((name) => applied.includes(name));
  if (unknown.length === 0) return { kind: isComplete ? "current" : "migrate" };
  if (isComplete && required !== undefined && required <= newest) return { kind: "supported", unknown };
  throw new MigrationRefused(
    `The database was changed by a newer version of Stoker (${unknown.join(", ")}) and no longer supports this one, whose ` +
      `newest migration is ${newest}. Start the newer version, or restore a backup made before the upgrade.`,
  );
}
