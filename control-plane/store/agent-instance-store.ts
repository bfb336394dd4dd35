import { type Kysely, sql, type Transaction } from "kysely";
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import type { AgentInstanceStore } from "../agent-instances/store.ts";
import { asAgentInstance, selectAgents } from "./agent-rows.ts";
import { asked } from "./asked.ts";
import { announce } from "./change-feed.ts";
import { inTransaction, uniqueViolation } from "./database.ts";
import { changeIn } from "./deployment-changes.ts";
import { insertDeployment } from "./deployment-insert.ts";
import { isListed } from "./deployment-rows.ts";
import { lockAccount } from "./limit-rows.ts";
import type { Database } from "./schema.ts";

class Moved extends Error {}

export function createAgentInstanceStore(db: Kysely<Database>): AgentInstanceStore {
  return asked<AgentInstanceStore>({
    async insert({ deployment, type, plan }, limit) {
      try {
        return await inTransaction(db, async (trx) => {
          if (!(await lockAccount(trx, deployment.account))) return "account_gone";
          const { count } = await trx
            .selectFrom("deployment")
            .select(sql<bigint>`count(*)`.as("count"))
            .where("account_id", "=", deployment.account)
            .where("kind", "=", "agent_instance")
            .where("status", "not in", ["deleted", "failed"])
            .executeTakeFirstOrThrow();
          if (count >= BigInt(limit)) return "too_many";
          await insertDeployment(trx, deployment);
          await trx
            .insertInto("agent_instance")
            .values({
              deploy_id: deployment.id,
              account_id: deployment.account,
              agent_type: type.id,
              plan_id: plan.id,
              version: type.version,
              image: type.image,
              port: type.port,
              dashboard_port: type.dashboardPort,
              volume_path: type.volumePath,
              vcpu: plan.vcpu,
              ram_bytes: BigInt(plan.ramBytes),
              hour_rate: plan.hourRate,
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
        .where("d.deploy_id", "=", id)
        .where("d.account_id", "=", account)
        .executeTakeFirst();
      return row && asAgentInstance(row);
    },

    async list(account) {
      const rows = await selectAgents(db)
        .where(isListed(account, "agent_instance"))
        .orderBy("d.created_at", "desc")
        .execute();
      return rows.map(asAgentInstance);
    },

    async rename(id, account, ifRevision, name) {
      try {
        return await inTransaction(db, async (trx) => {
          const { numUpdatedRows } = await trx
            .updateTable("deployment")
            .set((eb) => ({ model_name: name, revision: eb("revision", "+", 1n) }))
            .where("deploy_id", "=", id)
            .where("account_id", "=", account)
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

    setStatus: (id, account, ifRevision, status, ip = "") =>
      guarded(db, async (trx) => {
        const isStart = status === "initializing";
        await ifIdle(trx, id, account, isStart ? { started_at: sql<Date>`now()`, was_stopped: true } : {});
        const change = { status, ip, ...(status === "deleted" ? {} : { failReason: "" }) };
        if (!(await changeIn(trx, id, account, ifRevision, change, undefined))) throw new Moved();
      }),

    update: (id, account, ifRevision, type) =>
      guarded(db, async (trx) => {
        const { version, image, port, volumePath: volume_path, dashboardPort: dashboard_port } = type;
        await ifIdle(trx, id, account, { version, image, port, volume_path, dashboard_port });
        if (!(await changeIn(trx, id, account, ifRevision, { isNewGeneration: true }, undefined))) throw new Moved();
      }),
  });
}

/** Locks the instance's row; no operation begins on it meanwhile, and none runs. */
async function ifIdle(trx: Transaction<Database>, id: DeploymentId, account: AccountId, values: object): Promise<void> {
  const { numUpdatedRows } = await trx
    .updateTable("agent_instance")
    .set({ account_id: account, ...values })
    .where("deploy_id", "=", id)
    .where("account_id", "=", account)
    .where("operation", "is", null)
    .executeTakeFirst();
  if (numUpdatedRows === 0n) throw new Moved();
}

/** Everything or nothing; false when something moved. */
async function guarded(db: Kysely<Database>, work: (trx: Transaction<Database>) => Promise<void>): Promise<boolean> {
  try {
    await inTransaction(db, work);
    return true;
  } catch (error) {
    if (error instanceof Moved) return false;
    throw error;
  }
}
