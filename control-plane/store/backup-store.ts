import { type Kysely, type Selectable, sql, type Transaction } from "kysely";
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import type { Backup, BackupState, BackupStore, Begun, Operation } from "../agent-instances/store.ts";
import { asked } from "./asked.ts";
import { writeAudit } from "./audit-rows.ts";
import { hasLeftOvers, retireBackups } from "./backup-removal.ts";
import { settleOperations } from "./backup-settling.ts";
import { announce } from "./change-feed.ts";
import { inTransaction } from "./database.ts";
import { putCommand } from "./host-command-rows.ts";
import type { Database } from "./schema.ts";

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
        .selectFrom("instance_backup")
        .selectAll()
        .where("deploy_id", "=", id)
        .where("account_id", "=", account)
        .orderBy("created_at", "desc")
        .execute();
      return rows.map(asBackup);
    },

    begin: (operation, of, by) =>
      inTransaction(db, async (trx): Promise<Begun> => {
        const agent = await trx
          .selectFrom("agent_instance")
          .select("operation")
          .where("deploy_id", "=", of.id)
          .where("account_id", "=", of.account)
          .forUpdate()
          .executeTakeFirst();
        const deployment = await trx
          .selectFrom("deployment")
          .select(["status", sql<string | null>`weights ->> 'host'`.as("host")])
          .where("deploy_id", "=", of.id)
          .where("account_id", "=", of.account)
          .forUpdate()
          .executeTakeFirst();
        if (!agent || !deployment || deployment.status === "deleted") return { kind: "no_instance" };
        const known = operation === "backup" ? undefined : await readyBackup(trx, of);
        if (operation !== "backup" && !known) return { kind: "no_backup" };
        if (agent.operation !== null) return { kind: "busy" };
        if (!quiet.has(deployment.status)) return { kind: "wrong_state", status: deployment.status };
        if (deployment.host === null) return { kind: "no_volume" };
        const key = known?.blob_key ?? `backups/${of.id}/${of.backup}.tar.zst`;
        if (operation === "backup" && !of.isScheduled && (await madeByHand(trx, of.id)) >= keptByHand)
          return { kind: "too_many", limit: keptByHand };
        const command = await putCommand(trx, deployment.host, kinds[operation], {
          volume: of.id,
          key,
          ...(known ? { sha256: known.sha256, size_bytes: Number(known.size_bytes) } : {}),
        });
        if (!known) await addBackup(trx, of, key, command);
        await trx
          .updateTable("agent_instance")
          .set({
            operation,
            operation_backup: of.backup,
            operation_command: command,
            operation_at: sql<Date>`now()`,
            last_fault: "",
          })
          .where("deploy_id", "=", of.id)
          .execute();
        // Whoever decided on what it was before must look again.
        await trx
          .updateTable("deployment")
          .set((eb) => ({ revision: eb("revision", "+", 1n) }))
          .where("deploy_id", "=", of.id)
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
          .selectFrom("agent_instance as a")
          .innerJoin("deployment as d", "d.deploy_id", "a.deploy_id")
          .select(["a.operation_backup", "d.status"])
          .where("a.deploy_id", "=", of.id)
          .where("a.account_id", "=", of.account)
          .forUpdate("a")
          .executeTakeFirst();
        if (!agent || agent.status === "deleted") return "no_instance";
        if (agent.operation_backup === of.backup) return "busy";
        const { numUpdatedRows } = await trx
          .updateTable("instance_backup")
          .set({ state: "deleting" })
          .where("backup_id", "=", of.backup)
          .where("deploy_id", "=", of.id)
          .where("account_id", "=", of.account)
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
        .selectFrom("agent_instance as a")
        .innerJoin("deployment as d", "d.deploy_id", "a.deploy_id")
        .select(["a.deploy_id", "a.account_id", "a.agent_type", "d.created_at"])
        .select(
          sql<Date | null>`(select max(b.created_at) from instance_backup b where b.deploy_id = a.deploy_id)`.as(
            "tried",
          ),
        )
        .where("d.status", "=", "deployed")
        .where("a.operation", "is", null)
        .execute();
      const wanted = rows.filter((row) => {
        const everyMs = types.get(row.agent_type)?.backupEveryMs ?? 0;
        return everyMs > 0 && nowMs - (row.tried ?? row.created_at).getTime() >= everyMs;
      });
      return wanted.map((row) => ({ id: row.deploy_id as DeploymentId, account: row.account_id as AccountId }));
    },

    hasLeftOvers: () => hasLeftOvers(db),
    retire: (types) => retireBackups(db, types),
  });
}

function readyBackup(trx: Trx, of: { readonly id: string; readonly backup: string }) {
  return trx
    .selectFrom("instance_backup")
    .selectAll()
    .where("backup_id", "=", of.backup)
    .where("deploy_id", "=", of.id)
    .where("state", "=", "ready")
    .executeTakeFirst();
}

/** Alone where the instance's row is locked. */
async function madeByHand(trx: Trx, id: string): Promise<bigint> {
  const { count } = await trx
    .selectFrom("instance_backup")
    .select(sql<bigint>`count(*)`.as("count"))
    .where("deploy_id", "=", id)
    .where("is_scheduled", "=", false)
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
    .insertInto("instance_backup")
    .values({
      backup_id: of.backup,
      deploy_id: of.id,
      account_id: of.account,
      is_scheduled: of.isScheduled,
      state: "creating",
      blob_key: key,
      made_by_command: command,
    })
    .execute();
}

function asBackup(row: Selectable<Database["instance_backup"]>): Backup {
  return {
    id: row.backup_id,
    instance: row.deploy_id as DeploymentId,
    state: row.state as BackupState,
    sizeBytes: Number(row.size_bytes),
    createdAtMs: row.created_at.getTime(),
    fault: row.fault,
  };
}
