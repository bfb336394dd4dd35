// Somebody waits for an instance. Two small guarded writes, neither of which the second of many callers repeats: one asks
// for an instance where none is wanted, one says that somebody still waits.
import { type Kysely, sql } from "kysely";
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import type { InstancePhase } from "../../proto/instance-phase.ts";
import type { ColdStart } from "../deployments/store.ts";
import { announce } from "./change-feed.ts";
import { inTransaction } from "./database.ts";
import { asDeployment, selectDeployments } from "./deployment-rows.ts";
import type { Database } from "./schema.ts";

/** So often it is written down that somebody waits; what looks at it allows for more. */
const awaitedEverySeconds = 5;

export async function wakeDeployment(db: Kysely<Database>, id: DeploymentId, account: AccountId): Promise<void> {
  const isAsleep = await db
    .selectFrom("deployment")
    .select("deploy_id")
    .where("deploy_id", "=", id)
    .where("account_id", "=", account)
    .where("target", "<", 1)
    .where("min_instances", "<", 1)
    .executeTakeFirst();
  if (isAsleep) await wake(db, id);
  await db
    .updateTable("deployment")
    .set({ awaited_at: sql<Date>`now()` })
    .where("deploy_id", "=", id)
    .where("account_id", "=", account)
    .where(sql<boolean>`coalesce(awaited_at < now() - make_interval(secs => ${awaitedEverySeconds}), true)`)
    .execute();
}

/** In one order: two replicas that write the same ones must not wait for each other. Rows that are being changed are left out. */
export async function noteUse(db: Kysely<Database>, ids: readonly DeploymentId[]): Promise<void> {
  await db
    .updateTable("deployment")
    .set({ used_at: sql<Date>`now()` })
    .where("deploy_id", "in", (rows) =>
      rows
        .selectFrom("deployment")
        .select("deploy_id")
        .where("deploy_id", "in", [...ids, ""])
        .orderBy("deploy_id")
        .forUpdate()
        .skipLocked(),
    )
    .execute();
}

function wake(db: Kysely<Database>, id: DeploymentId): Promise<void> {
  return inTransaction(db, async (trx) => {
    const { numUpdatedRows } = await trx
      .updateTable("deployment")
      .set((eb) => ({ target: 1, awaited_at: sql<Date>`now()`, revision: eb("revision", "+", 1n) }))
      .where("deploy_id", "=", id)
      .where("target", "<", 1)
      .where("min_instances", "<", 1)
      .where("status", "in", ["deployed", "updating"])
      .executeTakeFirst();
    if (numUpdatedRows > 0n) await announce(trx, "deployment", id);
  });
}

export async function coldStart(
  db: Kysely<Database>,
  id: DeploymentId,
  account: AccountId,
): Promise<ColdStart | undefined> {
  const row = await selectDeployments(db)
    .where("d.deploy_id", "=", id)
    .where("d.account_id", "=", account)
    .select(
      sql<number>`coalesce(extract(epoch from now() - coalesce(
        (select min(i.created_at) from instance i
          where i.deploy_id = d.deploy_id and i.tombstoned_at is null and i.ready_at is null),
        d.awaited_at)) * 1000, 0)::float8`.as("elapsed_ms"),
    )
    .executeTakeFirst();
  if (!row) return undefined;
  const phases = await db
    .selectFrom("instance")
    .select("phase")
    .where("deploy_id", "=", id)
    .where("tombstoned_at", "is", null)
    .execute();
  return {
    deployment: asDeployment(row),
    phases: phases.map(({ phase }) => phase as InstancePhase),
    elapsedMs: Math.max(0, row.elapsed_ms),
    startMs: row.start_ms,
  };
}
