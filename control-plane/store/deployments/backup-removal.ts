// Removes excess scheduled backups, failed backups, and all data of deleted instances. Rows record what must be removed; the
// host that has the data receives commands until it confirms.
import { sql } from "kysely";
import type { DeploymentId, HostId } from "../../../proto/ids.ts";
import type { AgentType } from "../../agent-instances/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import type { Db, Trx } from "../core/schema.ts";
import { putCommand } from "../fleet/command-store.ts";

export async function retireBackups(db: Db, types: ReadonlyMap<string, AgentType>): Promise<number> {
  await markSurplus(db, types);
  return inTransaction(db, async (trx) => {
    const hosts = new Set<HostId>();
    const count = (await removeBackups(trx, hosts)) + (await removeVolumes(trx, hosts));
    for (const host of [...hosts].sort()) await announce(trx, "host", host);
    return count;
  });
}

export async function hasLeftOvers(db: Db): Promise<boolean> {
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
