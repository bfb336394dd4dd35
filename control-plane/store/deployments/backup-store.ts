import { sql } from "kysely";
import type { DeploymentId, HostId } from "../../../proto/ids.ts";
import type { AgentType, BackupStore, Begun, Operation } from "../../agent-instances/store.ts";
import { auditAct, auditSystem } from "../accounts/audit-rows.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import { rowCount } from "../core/rows.ts";
import type { Db, Trx } from "../core/schema.ts";
import { epochMs, now } from "../core/time.ts";
import { putCommand } from "../fleet/command-store.ts";

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

    begin: (operation, of, act) =>
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
        await auditAct(trx, act, {
          account: of.account,
          action: `volume.${operation}`,
          subject: of.id,
          after: { backup: of.backup },
        });
        await announce(trx, "host", deployment.host);
        return { kind: "begun", backup: of.backup };
      }),

    remove: (of, act) =>
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
        await auditAct(trx, act, {
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

interface Ended {
  readonly deployId: DeploymentId;
  readonly operation: Operation;
  readonly operationBackup: string;
  readonly operationCommand: string;
  readonly outcome: string | null;
  readonly errorCode: string;
  readonly errorMessage: string;
  readonly result: unknown;
}

/** Error codes whose messages are written for customers; other messages are for the operator. */
const publicCodes = new Set([
  "busy",
  "volume_missing",
  "backup_missing",
  "backup_damaged",
  "no_space",
  "store_away",
  "interrupted",
]);

/** Without a report for this long the operation counts as failed, and another one may start. */
const reportTimeout = "2 hours";

/** Guarded by the command that each operation waits for, so that a second replica finds nothing to do. */
async function settleOperations(db: Db): Promise<number> {
  const { rows } = await sql<Ended>`
    select a.deploy_id, a.operation, a.operation_backup, a.operation_command, c.outcome, c.error_code, c.error_message, c.result
    from agent_instance a left join host_command c on c.command_id = a.operation_command
    where a.operation_command is not null
      and (c.command_id is null or c.outcome is not null or a.operation_at < now() - ${sql.lit(reportTimeout)}::interval)
    order by a.deploy_id limit 100`.execute(db);
  let count = 0;
  for (const one of rows) if (await inTransaction(db, (trx) => settle(trx, one))) count += 1;
  await acceptLateBackups(db);
  await settleRemovals(db);
  return count;
}

async function settle(trx: Trx, one: Ended): Promise<boolean> {
  const isDone = one.outcome === "done";
  const fault = isDone ? "" : faultOf(one);
  const isBackup = one.operation === "backup";
  const { numUpdatedRows } = await trx
    .updateTable("agentInstance")
    .set({
      operation: null,
      operationBackup: null,
      operationCommand: null,
      operationAt: null,
      lastFault: fault,
      ...(isBackup && isDone ? { lastBackupAt: now } : {}),
    })
    .where("deployId", "=", one.deployId)
    .where("operationCommand", "=", one.operationCommand)
    .executeTakeFirst();
  if (numUpdatedRows === 0n) return false;
  if (isBackup) {
    const { sha256 = "", sizeBytes = 0 } = (one.result ?? {}) as { sha256?: string; sizeBytes?: number };
    await trx
      .updateTable("instanceBackup")
      .set({
        state: isDone ? "ready" : "failed",
        fault,
        finishedAt: now,
        ...(isDone ? { sha256, sizeBytes: BigInt(sizeBytes) } : {}),
      })
      .where("backupId", "=", one.operationBackup)
      .execute();
  }
  if (!isDone)
    await auditSystem(trx, {
      account: null,
      action: `volume.${one.operation}_failed`,
      subject: one.deployId,
      after: { outcome: one.outcome, code: one.errorCode, said: one.errorMessage },
    });
  await announce(trx, "deployment", one.deployId);
  return true;
}

function faultOf({ operation, outcome, errorCode: code, errorMessage: said }: Ended): string {
  const what = operation === "backup" ? "backup_failed" : operation === "restore" ? "restore_failed" : "trial_failed";
  switch (outcome) {
    case "interrupted":
      return `${what}: the agent of the host ended in the middle. Your data is as it was; try again.`;
    case "expired":
      return `${what}: the host was not reached in time, so it was not begun. Try again.`;
    case "failed":
      return `${what}: ${publicCodes.has(code) ? said : "it failed on the host; your data is unchanged. Try again, and contact your operator if it fails again."}`;
    case null:
      return `${what}: the host does not answer. Try again when it is back.`;
    default:
      return `${what}: the host refused it (${outcome}). Try again, and contact your operator if it fails again.`;
  }
}

/** Marks backups as ready that had timed out and were reported later as successful. */
async function acceptLateBackups(db: Db): Promise<void> {
  await sql`
    with late as (
      update instance_backup b set state = 'ready', fault = '', finished_at = c.finished_at,
        sha256 = coalesce(c.result ->> 'sha256', ''), size_bytes = coalesce((c.result ->> 'sizeBytes')::bigint, 0)
      from host_command c
      where b.state = 'failed' and c.command_id = b.made_by_command and c.outcome = 'done'
      returning b.deploy_id, c.finished_at)
    update agent_instance a set last_backup_at = greatest(a.last_backup_at, late.finished_at)
    from late where a.deploy_id = late.deploy_id`.execute(db);
}

async function settleRemovals(db: Db): Promise<void> {
  // A removal that failed or never started is commanded again.
  await sql`
    with ended as (
      select b.backup_id, c.outcome from instance_backup b left join host_command c on c.command_id = b.removal_command
      where b.removal_command is not null and (c.command_id is null or c.outcome is not null))
    , gone as (delete from instance_backup b using ended e where e.backup_id = b.backup_id and e.outcome = 'done')
    update instance_backup b set removal_command = null from ended e
    where e.backup_id = b.backup_id and e.outcome is distinct from 'done'`.execute(db);
  await sql`
    update agent_instance a set removal_command = null,
      volume_removed_at = case when c.outcome = 'done' then now() end
    from agent_instance waiting left join host_command c on c.command_id = waiting.removal_command
    where a.deploy_id = waiting.deploy_id and waiting.removal_command is not null
      and (c.command_id is null or c.outcome is not null)`.execute(db);
}

/** Rows record what must be removed; the host that has the data receives commands until it confirms. */
async function retireBackups(db: Db, types: ReadonlyMap<string, AgentType>): Promise<number> {
  await markSurplus(db, types);
  return inTransaction(db, async (trx) => {
    const hosts = new Set<HostId>();
    const count = (await removeBackups(trx, hosts)) + (await removeVolumes(trx, hosts));
    await announce(trx, "host", ...[...hosts].sort());
    return count;
  });
}

async function hasLeftOvers(db: Db): Promise<boolean> {
  const { rows } = await sql`
    select from agent_instance a join deployment d on d.deploy_id = a.deploy_id
    where d.status = 'deleted' and d.weights ->> 'host' is not null and a.operation is null
      and ((a.volume_removed_at is null and a.removal_command is null
          and not exists (select from instance i where i.deploy_id = d.deploy_id))
        or exists (select from instance_backup b where b.deploy_id = d.deploy_id and b.state in ('ready', 'failed')))
    limit 1`.execute(db);
  return rows.length > 0;
}

/** Keeps failed backups for their owner, and for a host that reports a success late. */
const keepFailed = "7 days";

/** Manual backups stay until they or their instance are deleted. */
async function markSurplus(db: Db, types: ReadonlyMap<string, AgentType>): Promise<void> {
  for (const { id, keepBackups } of types.values())
    await sql`
      update instance_backup set state = 'deleting' where backup_id in (
        select backup_id from (
          select b.backup_id, row_number() over (partition by b.deploy_id order by b.created_at desc) as place
          from instance_backup b join agent_instance a on a.deploy_id = b.deploy_id
          where a.agent_type = ${id} and b.is_scheduled and b.state = 'ready'
            and a.operation_backup is distinct from b.backup_id) ranked
        where place > ${keepBackups})`.execute(db);
  await sql`
    update instance_backup b set state = 'deleting' from agent_instance a
    where a.deploy_id = b.deploy_id and b.state = 'failed' and a.operation_backup is distinct from b.backup_id
      and b.finished_at < now() - ${sql.lit(keepFailed)}::interval`.execute(db);
  await sql`
    update instance_backup b set state = 'deleting' from deployment d
    where d.deploy_id = b.deploy_id and d.status = 'deleted' and b.state in ('ready', 'failed')`.execute(db);
}

async function removeBackups(trx: Trx, hosts: Set<HostId>): Promise<number> {
  const { rows } = await sql<{ backupId: string; deployId: DeploymentId; blobKey: string; host: HostId | null }>`
    select b.backup_id, b.deploy_id, b.blob_key, d.weights ->> 'host' as host
    from instance_backup b join deployment d on d.deploy_id = b.deploy_id
    where b.state = 'deleting' and b.removal_command is null
    order by b.backup_id limit 100 for update of b skip locked`.execute(trx);
  for (const { backupId: id, deployId: volume, blobKey: key, host } of rows) {
    if (host === null) continue;
    hosts.add(host);
    const command = await putCommand(trx, host, "volume.remove_backup", { volume, key });
    await trx.updateTable("instanceBackup").set({ removalCommand: command }).where("backupId", "=", id).execute();
  }
  return rows.length;
}

/** Removes the volume once the host has confirmed that the instance is removed. */
async function removeVolumes(trx: Trx, hosts: Set<HostId>): Promise<number> {
  const { rows } = await sql<{ deployId: DeploymentId; host: HostId }>`
    select a.deploy_id, d.weights ->> 'host' as host
    from agent_instance a join deployment d on d.deploy_id = a.deploy_id
    where d.status = 'deleted' and d.weights ->> 'host' is not null
      and a.volume_removed_at is null and a.removal_command is null and a.operation is null
      and not exists (select from instance i where i.deploy_id = d.deploy_id)
    order by a.deploy_id limit 100 for update of a skip locked`.execute(trx);
  for (const { deployId: volume, host } of rows) {
    hosts.add(host);
    const command = await putCommand(trx, host, "volume.remove", { volume });
    await trx.updateTable("agentInstance").set({ removalCommand: command }).where("deployId", "=", volume).execute();
  }
  return rows.length;
}
