// Applies hosts' reports of operations on volumes to backups and instances. Guarded by the command that each operation waits
// for, so that a second replica finds nothing to do.
import { sql } from "kysely";
import type { DeploymentId } from "../../../proto/ids.ts";
import type { Operation } from "../../agent-instances/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import type { Db, Trx } from "../core/schema.ts";
import { now } from "../core/time.ts";
import { writeAudit } from "../people/audit-rows.ts";

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

export async function settleOperations(db: Db): Promise<number> {
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
    await writeAudit(trx, {
      actor: "system",
      ip: "",
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
      return `${what}: ${publicCodes.has(code) ? said : "it failed on the host; your data is as it was. Try again, and tell your operator if it stays so."}`;
    case null:
      return `${what}: the host does not answer. Try again when it is back.`;
    default:
      return `${what}: the host refused it (${outcome}). Try again; tell your operator if it stays so.`;
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
