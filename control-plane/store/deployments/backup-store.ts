import { type Kysely, type Selectable, sql, type Transaction } from "kysely";
import type { AccountId, DeploymentId } from "../../../proto/ids.ts";
import type { Backup, BackupState, BackupStore, Begun, Operation } from "../../agent-instances/store.ts";
import { asked } from "../core/asked.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import type { Database } from "../core/schema.ts";
import { putCommand } from "../fleet/host-command-rows.ts";
import { writeAudit } from "../people/audit-rows.ts";
import { hasLeftOvers, retireBackups } from "./backup-removal.ts";
import { settleOperations } from "./backup-settling.ts";

type Trx = Transaction<Database>;

const kinds: Readonly<Record<Operation, string>> = {
  backup: "volume.backup",
  restore: "volume.restore",
  try_restore: "volume.try_restore",
};
/** Nothing is moved under a container that is being made or sent away. */
const quiet = new Set(["deployed", "stopped", "failed"]);

/** They go when their owner says so, or with their instance, and a disk is finite. */
const keptByHand = 10n;

export function createBackupStore(db: Kysely<Database>): BackupStore {
  return asked<BackupStore>({
    async list(id, account) {
      const rows = await db
        .selectFrom("instanceBackup")
        .selectAll()
        .where("deployId", "=", id)
        .where("accountId", "=", account)
        .orderBy("createdAt", "desc")
        .execute();
      return rows.map(asBackup);
    },

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
          .select(["status", sql<string | null>`weights ->> 'host'`.as("host")])
          .where("deployId", "=", of.id)
          .where("accountId", "=", of.account)
          .forUpdate()
          .executeTakeFirst();
        if (!agent || !deployment || deployment.status === "deleted") return { kind: "no_instance" };
        const known = operation === "backup" ? undefined : await readyBackup(trx, of);
        if (operation !== "backup" && !known) return { kind: "no_backup" };
        if (agent.operation !== null) return { kind: "busy" };
        if (!quiet.has(deployment.status)) return { kind: "wrong_state", status: deployment.status };
        if (deployment.host === null) return { kind: "no_volume" };
        const key = known?.blobKey ?? `backups/${of.id}/${of.backup}.tar.zst`;
        if (operation === "backup" && !of.isScheduled && (await madeByHand(trx, of.id)) >= keptByHand)
          return { kind: "too_many", limit: keptByHand };
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
            operationAt: sql<Date>`now()`,
            lastFault: "",
          })
          .where("deployId", "=", of.id)
          .execute();
        // Whoever decided on what it was before must look again.
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
        .select(["a.deployId", "a.accountId", "a.agentType", "d.createdAt"])
        .select(
          sql<Date | null>`(select max(b.created_at) from instance_backup b where b.deploy_id = a.deploy_id)`.as(
            "tried",
          ),
        )
        .where("d.status", "=", "deployed")
        .where("a.operation", "is", null)
        .execute();
      const wanted = rows.filter((row) => {
        const everyMs = types.get(row.agentType)?.backupEveryMs ?? 0;
        return everyMs > 0 && nowMs - (row.tried ?? row.createdAt).getTime() >= everyMs;
      });
      return wanted.map((row) => ({ id: row.deployId as DeploymentId, account: row.accountId as AccountId }));
    },

    hasLeftOvers: () => hasLeftOvers(db),
    retire: (types) => retireBackups(db, types),
  });
}

function readyBackup(trx: Trx, of: { readonly id: string; readonly backup: string }) {
  return trx
    .selectFrom("instanceBackup")
    .selectAll()
    .where("backupId", "=", of.backup)
    .where("deployId", "=", of.id)
    .where("state", "=", "ready")
    .executeTakeFirst();
}

/** Alone where the instance's row is locked. */
async function madeByHand(trx: Trx, id: string): Promise<bigint> {
  const { count } = await trx
    .selectFrom("instanceBackup")
    .select(sql<bigint>`count(*)`.as("count"))
    .where("deployId", "=", id)
    .where("isScheduled", "=", false)
    .where("state", "in", ["creating", "ready"])
    .executeTakeFirstOrThrow();
  return count;
}

async function addBackup(
  trx: Trx,
  of: { readonly id: string; readonly account: string; readonly backup: string; readonly isScheduled: boolean },
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

function asBackup(row: Selectable<Database["instanceBackup"]>): Backup {
  return {
    id: row.backupId,
    instance: row.deployId as DeploymentId,
    state: row.state as BackupState,
    sizeBytes: Number(row.sizeBytes),
    createdAtMs: row.createdAt.getTime(),
    fault: row.fault,
  };
}
