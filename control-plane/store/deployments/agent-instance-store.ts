import type { AccountId, DeploymentId } from "../../../proto/ids.ts";
import type { AgentInstanceStore } from "../../agent-instances/store.ts";
import { lockAccount } from "../accounts/account-rows.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import { rowCount } from "../core/rows.ts";
import type { Db, Trx } from "../core/schema.ts";
import { now } from "../core/time.ts";
import { asAgentInstance, selectAgents } from "./agent-rows.ts";
import { changeIn } from "./deployment-changes.ts";
import { isListed } from "./deployment-rows.ts";
import { insertDeployment } from "./deployments-store.ts";

class Moved extends Error {}

export function createAgentInstanceStore(db: Db): AgentInstanceStore {
  return asked<AgentInstanceStore>({
    async insert({ deployment, type, plan }, limit) {
      try {
        return await inTransaction(db, async (trx) => {
          if (!(await lockAccount(trx, deployment.account))) return "account_gone";
          const { count } = await trx
            .selectFrom("deployment")
            .select(rowCount)
            .where("accountId", "=", deployment.account)
            .where("kind", "=", "agent_instance")
            .where("status", "not in", ["deleted", "failed"])
            .executeTakeFirstOrThrow();
          if (count >= limit) return "too_many";
          await insertDeployment(trx, deployment);
          await trx
            .insertInto("agentInstance")
            .values({
              deployId: deployment.id,
              accountId: deployment.account,
              agentType: type.id,
              planId: plan.id,
              version: type.version,
              image: type.image,
              port: type.port,
              dashboardPort: type.dashboardPort,
              volumePath: type.volumePath,
              vcpu: plan.vcpu,
              ramBytes: BigInt(plan.ramBytes),
              hourRate: plan.hourRate,
            })
            .execute();
          await announce(trx, "deployment", deployment.id);
          return "made";
        });
      } catch (error) {
        if (uniqueViolation(error) === "deployment_name") return "name_taken";
        throw error;
      }
    },

    async get(id, account) {
      const row = await selectAgents(db)
        .where("d.deployId", "=", id)
        .where("d.accountId", "=", account)
        .executeTakeFirst();
      return row && asAgentInstance(row);
    },

    async list(account) {
      const rows = await selectAgents(db)
        .where(isListed(account, "agent_instance"))
        .orderBy("d.createdAt", "desc")
        .execute();
      return rows.map(asAgentInstance);
    },

    async rename(id, account, ifRevision, name) {
      try {
        return await inTransaction(db, async (trx) => {
          const { numUpdatedRows } = await trx
            .updateTable("deployment")
            .set((eb) => ({ modelName: name, revision: eb("revision", "+", 1n) }))
            .where("deployId", "=", id)
            .where("accountId", "=", account)
            .where("kind", "=", "agent_instance")
            .where("revision", "=", ifRevision)
            .executeTakeFirst();
          if (numUpdatedRows === 0n) return "moved";
          await announce(trx, "deployment", id);
          return "renamed";
        });
      } catch (error) {
        if (uniqueViolation(error) === "deployment_name") return "name_taken";
        throw error;
      }
    },

    setStatus: (id, account, ifRevision, status, act) =>
      guarded(db, async (trx) => {
        const isStart = status === "initializing";
        await ifIdle(trx, id, account, isStart ? { startedAt: now, wasStopped: true } : {});
        const change = { status, act, ...(status === "deleted" ? {} : { failReason: "" }) };
        if (!(await changeIn(trx, id, account, ifRevision, change, undefined))) throw new Moved();
      }),

    restart: (id, account, ifRevision, act) =>
      guarded(db, async (trx) => {
        await ifIdle(trx, id, account, {});
        if (!(await changeIn(trx, id, account, ifRevision, { isNewGeneration: true, act }, undefined)))
          throw new Moved();
      }),

    update: (id, account, ifRevision, type) =>
      guarded(db, async (trx) => {
        const { version, image, port, volumePath, dashboardPort } = type;
        await ifIdle(trx, id, account, { version, image, port, volumePath, dashboardPort });
        if (!(await changeIn(trx, id, account, ifRevision, { isNewGeneration: true }, undefined))) throw new Moved();
      }),
  });
}

/** Changes the instance's row unless an operation runs, and locks it, so that none starts before the commit. */
async function ifIdle(trx: Trx, id: DeploymentId, account: AccountId, values: object): Promise<void> {
  const { numUpdatedRows } = await trx
    .updateTable("agentInstance")
    .set({ accountId: account, ...values })
    .where("deployId", "=", id)
    .where("accountId", "=", account)
    .where("operation", "is", null)
    .executeTakeFirst();
  if (numUpdatedRows === 0n) throw new Moved();
}

/** Commits everything or nothing; returns false when a row changed in the meantime. */
async function guarded(db: Db, work: (trx: Trx) => Promise<void>): Promise<boolean> {
  try {
    await inTransaction(db, work);
    return true;
  } catch (error) {
    if (error instanceof Moved) return false;
    throw error;
  }
}
