import { sql } from "kysely";
import { type Migration, Migrator } from "kysely/migration";
import type { Logger } from "pino";
import { openDatabase } from "./database.ts";
import * as accounts from "./migrations/0001-accounts.ts";
import * as money from "./migrations/0002-money.ts";
import * as fleet from "./migrations/0003-fleet.ts";
import * as deployments from "./migrations/0004-deployments.ts";
import * as quotas from "./migrations/0005-quotas.ts";
import * as payments from "./migrations/0006-payments.ts";
import * as idempotency from "./migrations/0007-idempotency.ts";
import * as gpuTime from "./migrations/0008-gpu-time.ts";
import * as kek from "./migrations/0009-kek.ts";
import * as enrolment from "./migrations/0010-enrolment.ts";
import * as nodeFacts from "./migrations/0011-node-facts.ts";
import * as agentInstances from "./migrations/0012-agent-instances.ts";
import * as nodeWeights from "./migrations/0014-node-weights.ts";
import * as placement from "./migrations/0015-placement.ts";
import * as scaling from "./migrations/0016-scaling.ts";
import * as adapters from "./migrations/0017-adapters.ts";
import * as hostOperations from "./migrations/0018-host-operations.ts";
import * as webhooks from "./migrations/0019-webhooks.ts";
import * as files from "./migrations/0020-files.ts";
import * as modelMeta from "./migrations/0021-model-meta.ts";
import * as voices from "./migrations/0022-voices.ts";
import * as usageMonths from "./migrations/0023-usage-months.ts";
import * as standardArgs from "./migrations/0024-standard-args.ts";
import * as webhookKept from "./migrations/0025-webhook-kept.ts";
import * as chargeCauses from "./migrations/0026-charge-causes.ts";
import * as adapterSources from "./migrations/0027-adapter-sources.ts";
import * as deploymentUse from "./migrations/0031-deployment-use.ts";
import * as leasesOfAttempts from "./migrations/0033-leases-of-attempts.ts";
import * as dashboards from "./migrations/0034-dashboards.ts";
import * as specMemory from "./migrations/0035-spec-memory.ts";
import * as keptDeployments from "./migrations/0036-kept-deployments.ts";
import { ensureMoneyMonths } from "./money-months.ts";

/**
 * In order. Imported by name: what runs is what was reviewed, whatever lies in the folder. The next one's number must be above
 * the highest, also where lower ones are free: a database that ran the highest refuses any that comes before it.
 */
const migrations: Record<string, Migration> = {
  "0001-accounts": accounts,
  "0002-money": money,
  "0003-fleet": fleet,
  "0004-deployments": deployments,
  "0005-quotas": quotas,
  "0006-payments": payments,
  "0007-idempotency": idempotency,
  "0008-gpu-time": gpuTime,
  "0009-kek": kek,
  "0010-enrolment": enrolment,
  "0011-node-facts": nodeFacts,
  "0012-agent-instances": agentInstances,
  "0014-node-weights": nodeWeights,
  "0015-placement": placement,
  "0016-scaling": scaling,
  "0017-adapters": adapters,
  "0018-host-operations": hostOperations,
  "0019-webhooks": webhooks,
  "0020-files": files,
  "0021-model-meta": modelMeta,
  "0022-voices": voices,
  "0023-usage-months": usageMonths,
  "0024-standard-args": standardArgs,
  "0025-webhook-kept": webhookKept,
  "0026-charge-causes": chargeCauses,
  "0027-adapter-sources": adapterSources,
  "0031-deployment-use": deploymentUse,
  "0033-leases-of-attempts": leasesOfAttempts,
  "0034-dashboards": dashboards,
  "0035-spec-memory": specMemory,
  "0036-kept-deployments": keptDeployments,
};

/** Public message: what happened, why, what to do. */
export class MigrationRefused extends Error {
  override readonly name = "MigrationRefused";
}

/**
 * Brings the database at `url` to this version's schema; several replicas may call it at once (Kysely's migrator takes an
 * advisory lock). Throws MigrationRefused when the database was already changed by a newer version.
 */
export async function migrateDatabase(url: string, options: { readonly log: Logger }): Promise<void> {
  // A migration of a large table, and waiting for another replica's, take longer than any request may.
  const { db, close } = openDatabase(url, {
    maxConnections: 2,
    log: options.log,
    statementTimeoutMs: 0,
    connectTimeoutMs: 10_000,
  });
  try {
    const applied = await appliedNames(db);
    const unknown = applied.filter((name) => !(name in migrations));
    if (unknown.length > 0) {
      throw new MigrationRefused(
        `The database was changed by a newer version of Stoker (${unknown.join(", ")}), which this version does not know. ` +
          "Start the newer version, or restore a backup made before the upgrade.",
      );
    }
    const migrator = new Migrator({ db, provider: { getMigrations: async () => migrations } });
    const { error, results } = await migrator.migrateToLatest();
    for (const result of results ?? [])
      options.log.info({ migration: result.migrationName, status: result.status }, "migration");
    if (error !== undefined) throw error;
    // Before the first account's credit is posted: a month that has a row in the default partition stays there whole.
    if (results?.length) await ensureMoneyMonths(db, new Date());
  } finally {
    await close();
  }
}

async function appliedNames(db: ReturnType<typeof openDatabase>["db"]): Promise<string[]> {
  const { rows: found } = await sql<{
    there: boolean;
  }>`select to_regclass('kysely_migration') is not null as there`.execute(db);
  if (!found[0]?.there) return [];
  const { rows } = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(db);
  return rows.map((row) => row.name);
}
