// Records callers that wait for an instance. Two guarded writes, which concurrent callers do not repeat: one requests an instance
// if none is desired, the other records that a caller is still waiting.
import { sql } from "kysely";
import type { AccountId, DeploymentId } from "../../../proto/ids.ts";
import type { ColdStart } from "../../deployments/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import type { Db } from "../core/schema.ts";
import { now } from "../core/time.ts";
import { asDeployment, selectDeployments } from "./deployment-rows.ts";

/** Interval of recording a waiting caller; readers allow for more. */
const awaitedEverySeconds = 5;

export async function wakeDeployment(db: Db, id: DeploymentId, account: AccountId): Promise<void> {
  const isAsleep = await db
    .selectFrom("deployment")
    .select("deployId")
    .where("deployId", "=", id)
    .where("accountId", "=", account)
    .where("target", "<", 1)
    .where("minInstances", "<", 1)
    .executeTakeFirst();
  if (isAsleep) await wake(db, id);
  await db
    .updateTable("deployment")
    .set({ awaitedAt: now })
    .where("deployId", "=", id)
    .where("accountId", "=", account)
    .where(sql<boolean>`coalesce(awaited_at < now() - make_interval(secs => ${awaitedEverySeconds}), true)`)
    .execute();
}

/** Locks rows in one order, so that replicas do not deadlock, and skips locked ones. */
export async function noteUse(db: Db, ids: readonly DeploymentId[]): Promise<void> {
  await db
    .updateTable("deployment")
    .set({ usedAt: now })
    .where("deployId", "in", (rows) =>
      rows
        .selectFrom("deployment")
        .select("deployId")
        .where(sql<boolean>`deploy_id = any(${[...ids]}::text[])`)
        .orderBy("deployId")
        .forUpdate()
        .skipLocked(),
    )
    .execute();
}

function wake(db: Db, id: DeploymentId): Promise<void> {
  return inTransaction(db, async (trx) => {
    const { numUpdatedRows } = await trx
      .updateTable("deployment")
      .set((eb) => ({ target: 1, awaitedAt: now, revision: eb("revision", "+", 1n) }))
      .where("deployId", "=", id)
      .where("target", "<", 1)
      .where("minInstances", "<", 1)
      .where("status", "in", ["deployed", "updating"])
      .executeTakeFirst();
    if (numUpdatedRows > 0n) await announce(trx, "deployment", id);
  });
}

export async function coldStart(db: Db, id: DeploymentId, account: AccountId): Promise<ColdStart | undefined> {
  const row = await selectDeployments(db)
    .where("d.deployId", "=", id)
    .where("d.accountId", "=", account)
    .select(
      sql<number>`coalesce(extract(epoch from now() - coalesce(
        (select min(i.created_at) from instance i
          where i.deploy_id = d.deploy_id and i.tombstoned_at is null and i.ready_at is null),
        d.awaited_at)) * 1000, 0)::float8`.as("elapsedMs"),
    )
    .executeTakeFirst();
  if (!row) return undefined;
  const phases = await db
    .selectFrom("instance")
    .select("phase")
    .where("deployId", "=", id)
    .where("tombstonedAt", "is", null)
    .execute();
  return {
    deployment: asDeployment(row),
    phases: phases.map(({ phase }) => phase),
    elapsedMs: Math.max(0, row.elapsedMs),
    startMs: row.startMs,
  };
}
