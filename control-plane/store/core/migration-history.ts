// Compares a database's applied migrations with those of this version. Pure.
import { OperatorError } from "../../service-error.ts";

/** The message says what happened, why, and what to do. */
export class MigrationRefused extends OperatorError {
  override readonly name = "MigrationRefused";
}

export interface SchemaState {
  /** Names, sorted. */
  readonly applied: readonly string[];
  /** Oldest migration that a control plane must know to use this schema; set by migrations that remove something. */
  readonly required: string | undefined;
}

export type SchemaSteps =
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
  if (unknown.length === 0) return { kind: "migrate" };
  const isComplete = known.every((name) => applied.includes(name));
  if (isComplete && required !== undefined && required <= newest) return { kind: "supported", unknown };
  throw new MigrationRefused(
    `The database was changed by a newer version of Stoker (${unknown.join(", ")}) and no longer supports this one, whose ` +
      `newest migration is ${newest}. Start the newer version, or restore a backup made before the upgrade.`,
  );
}
