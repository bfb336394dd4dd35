import { sql } from "kysely";
import type { DeploymentId } from "../../../proto/ids.ts";
import type { DeploymentStore } from "../../deployments/store.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { changeDeployment, claimDeployment, releaseClaim, sharePrefixCache } from "./deployment-changes.ts";
import { commitVerdict } from "./deployment-commit.ts";
import { insertUnderLimits } from "./deployment-insert.ts";
import { asDeployment, isListed, selectDeployments, selectInstances } from "./deployment-rows.ts";
import { desiredRows } from "./desired-rows.ts";
import { writeObservations } from "./observations.ts";
import { coldStart, noteUse, wakeDeployment } from "./wake-deployment.ts";

export function createDeploymentStore(db: Db): DeploymentStore {
  return asked<DeploymentStore>({
    async insert(next, check) {
      const refusal = await insertUnderLimits(db, next, check, false);
      if (refusal) return refusal;
      return (await this.get(next.id, next.account)) ?? "account_gone";
    },

    refusalOf: (next, check) => insertUnderLimits(db, next, check, true),

    async get(id, account) {
      const row = await selectDeployments(db)
        .where("d.deployId", "=", id)
        .where("d.accountId", "=", account)
        .executeTakeFirst();
      return row && asDeployment(row);
    },

    async list(account, kind, statuses) {
      const rows = await selectDeployments(db)
        .where(isListed(account, kind))
        .$if(statuses !== undefined, (query) => query.where("d.status", "in", [...(statuses ?? [])]))
        .orderBy("d.createdAt", "desc")
        .execute();
      return rows.map(asDeployment);
    },

    async weightsToken(id, account) {
      const row = await db
        .selectFrom("deployment")
        .select("weightsToken")
        .where("deployId", "=", id)
        .where("accountId", "=", account)
        .executeTakeFirst();
      return row?.weightsToken ?? null;
    },

    instances: (id) =>
      selectInstances(db)
        .$if(id !== undefined, (query) => query.where("deployId", "=", id as DeploymentId))
        .where("tombstonedAt", "is", null)
        .orderBy("createdAt")
        .execute(),

    async active(ids) {
      const rows = await selectDeployments(db)
        .$if(ids !== undefined, (query) => query.where("d.deployId", "in", [...(ids ?? [])]))
        // Uses indexes: there are many ended deployments, which must not be read every time.
        .where(sql<boolean>`d.deploy_id in (
          select deploy_id from deployment where status not in ('stopped', 'failed', 'deleted')
          union select deploy_id from instance where tombstoned_at is null)`)
        .orderBy("d.createdAt")
        .execute();
      if (rows.length === 0) return [];
      const instances = await selectInstances(db)
        .where(
          "deployId",
          "in",
          rows.map((row) => row.deployId),
        )
        .orderBy("instanceId")
        .execute();
      const byDeployment = Map.groupBy(instances, (instance) => instance.deployId);
      return rows.map((row) => ({
        deployment: asDeployment(row),
        instances: byDeployment.get(row.deployId) ?? [],
        claimedUntilMs: row.lockExpiresAt?.getTime() ?? 0,
      }));
    },

    coldStart: (id, account) => coldStart(db, id, account),
    wake: (id, account) => wakeDeployment(db, id, account),
    noteUse: (ids) => noteUse(db, ids),
    claim: (id, owner, ttlMs) => claimDeployment(db, id, owner, ttlMs),
    release: (claimed) => releaseClaim(db, claimed),
    commit: (claimed, verdict) => commitVerdict(db, claimed, verdict),
    change: (id, account, ifRevision, change, check) => changeDeployment(db, id, account, ifRevision, change, check),
    observe: (...report) => writeObservations(db, ...report),
    sharePrefixCache: (change) => sharePrefixCache(db, change),
    desired: (host) => desiredRows(db, host),
  });
}
