import { sql } from "kysely";
import type { DeploymentId, HostId } from "../../../proto/ids.ts";
import type { BackupStore, Begun, Operation } from "../../agent-instances/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import { rowCount } from "../core/rows.ts";
import type { Db, Trx } from "../core/schema.ts";
import { epochMs, now } from "../core/time.ts";
import { putCommand } from "../fleet/command-store.ts";
import { writeAudit } from "../people/audit-rows.ts";
import { hasLeftOvers, retireBackups } from "./backup-removal.ts";
import { settleOperations } from "./backup-settling.ts";

const kinds: Readonly<Record<Operation, string>> = {
  backup: "volume.backup",
  restore: "volume.restore",
  try_restore: "volume.try_restore",
};
/** Statuses in which an operation may start: the container is not being created or removed. */
const settled: ReadonlySet<string> = new Set(["deployed", "stopped", "failed"]);

/** Maximum manual backups of an instance: nothing removes them before their owner or their instance's deletion. */
const maxManual = 10;

export function createBackupStore(db: Db): BackupStore {
  return asked<BackupStore>({
    list: (id, account) =>
      db
        .selectFrom("instanceBackup")
        .select(["backupId as id", "deployId as instance", "state", sql<number>`size_bytes::float8`.as("sizeBytes")])
        .select([epochMs("createdAt").as("createdAtMs"), "fault"])
        .where("deployId", "=", id)
        .where("accountId", "=", account)
        .orderBy("createdAt", "desc")
        .execute(),

    begin: (operation, of, by) =>
      inTransaction(db, async (trx): Promise<Begun> => {
        const agent = await trx
          .selectFrom("agentInstance")
          .select("operation")
          .where("deployId", "=", of.id)
          .where("accountId", "=", of.account)
          .forUpdate()
          .executeTakeFirst();
        const deployment = await trx
          .selectFrom("deployment")
          .select(["status", sql<HostId | null>`weights ->> 'host'`.as("host")])
          .where("deployId", "=", of.id)
          .where("accountId", "=", of.account)
          .forUpdate()
          .executeTakeFirst();
        if (!agent || !deployment || deployment.status === "deleted") return { kind: "no_instance" };
        const known = operation === "backup" ? undefined : await readyBackup(trx, of);
        if (operation !== "backup" && !known) return { kind: "no_backup" };
        if (agent.operation !== null) return { kind: "busy" };
        if (!settled.has(deployment.status)) return { kind: "wrong_state", status: deployment.status };
        if (deployment.host === null) return { kind: "no_volume" };
        const key = known?.blobKey ?? `backups/${of.id}/${of.backup}.tar.zst`;
        if (operation === "backup" && !of.isScheduled && (await countManual(trx, of.id)) >= maxManual)
          return { kind: "too_many", limit: maxManual };
        const command = await putCommand(trx, deployment.host, kinds[operation], {
          volume: of.id,
          key,
          ...(known ? { sha256: known.sha256, size_bytes: Number(known.sizeBytes) } : {}),
        });
        if (!known) await addBackup(trx, of, key, command);
        await trx
          .updateTable("agentInstance")
          .set({
            operation,
            operationBackup: of.backup,
            operationCommand: command,
            operationAt: now,
            lastFault: "",
          })
          .where("deployId", "=", of.id)
          .execute();
        // Invalidates concurrent decisions that read the earlier state.
        await trx
          .updateTable("deployment")
          .set((eb) => ({ revision: eb("revision", "+", 1n) }))
          .where("deployId", "=", of.id)
          .execute();
        await writeAudit(trx, {
          actor: by.account,
          ip: by.ip,
          account: of.account,
          action: `volume.${operation}`,
          subject: of.id,
          after: { backup: of.backup },
        });
        await announce(trx, "host", deployment.host);
        return { kind: "begun", backup: of.backup };
      }),

    remove: (of, by) =>
      inTransaction(db, async (trx) => {
        const agent = await trx
          .selectFrom("agentInstance as a")
          .innerJoin("deployment as d", "d.deployId", "a.deployId")
          .select(["a.operationBackup", "d.status"])
          .where("a.deployId", "=", of.id)
          .where("a.accountId", "=", of.account)
          .forUpdate("a")
          .executeTakeFirst();
        if (!agent || agent.status === "deleted") return "no_instance";
        if (agent.operationBackup === of.backup) return "busy";
        const { numUpdatedRows } = await trx
          .updateTable("instanceBackup")
          .set({ state: "deleting" })
          .where("backupId", "=", of.backup)
          .where("deployId", "=", of.id)
          .where("accountId", "=", of.account)
          .where("state", "in", ["ready", "failed"])
          .executeTakeFirst();
        if (numUpdatedRows === 0n) return "no_backup";
        await writeAudit(trx, {
          actor: by.account,
          ip: by.ip,
          account: of.account,
          action: "volume.remove_backup",
          subject: of.id,
          before: { backup: of.backup },
        });
        return "removed";
      }),

    settle: () => settleOperations(db),

    async due(types, nowMs) {
      const rows = await db
        .selectFrom("agentInstance as a")
        .innerJoin("deployment as d", "d.deployId", "a.deployId")
        .select(["a.deployId as id", "a.accountId as account", "a.agentType", "d.createdAt"])
        .select(
          sql<Date | null>`(select max(b.created_at) from instance_backup b where b.deploy_id = a.deploy_id)`.as(
            "attemptedAt",
          ),
        )
        .where("d.status", "=", "deployed")
        .where("a.operation", "is", null)
        .execute();
      return rows.filter((row) => {
        const everyMs = types.get(row.agentType)?.backupEveryMs ?? 0;
        return everyMs > 0 && nowMs - (row.attemptedAt ?? row.createdAt).getTime() >= everyMs;
      });
    },

    hasLeftOvers: () => hasLeftOvers(db),
    retire: (types) => retireBackups(db, types),
  });
}

function readyBackup(trx: Trx, of: { readonly id: DeploymentId; readonly backup: string }) {
  return trx
    .selectFrom("instanceBackup")
    .selectAll()
    .where("backupId", "=", of.backup)
    .where("deployId", "=", of.id)
    .where("state", "=", "ready")
    .executeTakeFirst();
}

/** Call it while the instance's row is locked. */
async function countManual(trx: Trx, id: DeploymentId): Promise<number> {
  const { count } = await trx
    .selectFrom("instanceBackup")
    .select(rowCount)
    .where("deployId", "=", id)
    .where("isScheduled", "=", false)
    .where("state", "in", ["creating", "ready"])
    .executeTakeFirstOrThrow();
  return count;
}

async function addBackup(
  trx: Trx,
  of: Parameters<BackupStore["begin"]>[1],
  key: string,
  command: string,
): Promise<void> {
  await trx
    .insertInto("instanceBackup")
    .values({
      backupId: of.backup,
      deployId: of.id,
      accountId: of.account,
      isScheduled: of.isScheduled,
      state: "creating",
      blobKey: key,
      madeByCommand: command,
    })
    .execute();
}
