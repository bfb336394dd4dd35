import { type Kysely, sql } from "kysely";
import type { DeploymentKind, DeploymentStore } from "../deployments/store.ts";
import { isAdapterName } from "./adapter-rows.ts";
import { asked } from "./asked.ts";
import { announce } from "./change-feed.ts";
import { inTransaction, uniqueViolation } from "./database.ts";
import { changeDeployment, claimDeployment, releaseClaim } from "./deployment-changes.ts";
import { commitVerdict } from "./deployment-commit.ts";
import { insertDeployment } from "./deployment-insert.ts";
import { asDeployment, asInstance, selectDeployments } from "./deployment-rows.ts";
import { desiredRows } from "./desired-rows.ts";
import { lockAccount, readGpuUse } from "./limit-rows.ts";
import { writeObservations } from "./observations.ts";
import type { Database } from "./schema.ts";
import { coldStart, wakeDeployment } from "./wake-deployment.ts";

export function createDeploymentStore(db: Kysely<Database>): DeploymentStore {
  return asked<DeploymentStore>({
    async insert(next, check) {
      try {
        const refusal = await inTransaction(db, async (trx) => {
          if (!(await lockAccount(trx, next.account))) return "account_gone";
          if (next.kind === "model" && (await isAdapterName(trx, next.account, next.modelName))) return "name_taken";
          check(await readGpuUse(trx, next.account, next.gpu, undefined));
          await insertDeployment(trx, next);
          await announce(trx, "deployment", next.id);
          return undefined;
        });
        if (refusal) return refusal;
      } catch (error) {
        if (uniqueViolation(error) === "deployment_name") return "name_taken";
        throw error;
      }
      return (await this.get(next.id, next.account)) ?? "account_gone";
    },

    async get(id, account) {
      const row = await selectDeployments(db)
        .where("d.deploy_id", "=", id)
        .where("d.account_id", "=", account)
        .executeTakeFirst();
      return row && asDeployment(row);
    },

    async list(account, kind, statuses) {
      const rows = await selectDeployments(db)
        .where("d.account_id", "=", account)
        .$if(kind !== undefined, (query) => query.where("d.kind", "=", kind as DeploymentKind))
        .$if(statuses !== undefined, (query) => query.where("d.status", "in", [...(statuses ?? [])]))
        .orderBy("d.created_at", "desc")
        .execute();
      return rows.map(asDeployment);
    },

    async instances(id) {
      const rows = await db
        .selectFrom("instance")
        .selectAll()
        .$if(id !== undefined, (query) => query.where("deploy_id", "=", id as string))
        .where("tombstoned_at", "is", null)
        .orderBy("created_at")
        .execute();
      return rows.map(asInstance);
    },

    async active(ids) {
      const rows = await selectDeployments(db)
        .$if(ids !== undefined, (query) => query.where("d.deploy_id", "in", [...(ids ?? [])]))
        .where(sql<boolean>`(d.status not in ('stopped', 'failed', 'deleted') or exists (
          select 1 from instance i where i.deploy_id = d.deploy_id and i.tombstoned_at is null))`)
        .orderBy("d.created_at")
        .execute();
      if (rows.length === 0) return [];
      const instances = await db
        .selectFrom("instance")
        .selectAll()
        .where(
          "deploy_id",
          "in",
          rows.map((row) => row.deploy_id),
        )
        .orderBy("instance_id")
        .execute();
      const byDeployment = Map.groupBy(instances, (instance) => instance.deploy_id);
      return rows.map((row) => ({
        deployment: asDeployment(row),
        instances: (byDeployment.get(row.deploy_id) ?? []).map(asInstance),
      }));
    },

    coldStart: (id, account) => coldStart(db, id, account),
    wake: (id, account) => wakeDeployment(db, id, account),
    claim: (id, owner, ttlMs) => claimDeployment(db, id, owner, ttlMs),
    release: (claimed) => releaseClaim(db, claimed),
    commit: (claimed, verdict) => commitVerdict(db, claimed, verdict),
    change: (id, account, ifRevision, change, check) => changeDeployment(db, id, account, ifRevision, change, check),
    observe: (...report) => writeObservations(db, ...report),
    desired: (host) => desiredRows(db, host),
  });
}
