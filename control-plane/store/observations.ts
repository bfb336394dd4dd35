// A host's report becomes rows. The host's row is locked first, which also fences an older session.
import { type Kysely, sql, type Transaction } from "kysely";
import type { HostId, InstanceId } from "../../proto/ids.ts";
import type { Observation, Present } from "../deployments/store.ts";
import { observeAdapters } from "./adapter-rows.ts";
import { announce } from "./change-feed.ts";
import { inTransaction } from "./database.ts";
import type { Database } from "./schema.ts";
import { writeUnknown } from "./unknown-instances.ts";

export async function writeObservations(
  db: Kysely<Database>,
  host: HostId,
  nodeEpoch: bigint,
  observations: readonly Observation[],
  removed: readonly InstanceId[],
  present: readonly Present[],
): Promise<{ readonly isFenced: boolean; readonly unknown: readonly InstanceId[] }> {
  const firstReady: InstanceId[] = [];
  const written = await inTransaction(db, async (trx) => {
    firstReady.length = 0;
    const current = await trx
      .selectFrom("host")
      .select(["host_id", "unknown_instances"])
      .where("host_id", "=", host)
      .where("node_epoch", "=", nodeEpoch)
      .forUpdate()
      .executeTakeFirst();
    if (!current) return { isFenced: true, unknown: [] };

    const rows = await trx.selectFrom("instance").selectAll().where("host_id", "=", host).execute();
    const known = new Map(rows.map((row) => [row.instance_id, row]));
    const changed = new Set<string>();
    for (const seen of observations) {
      const row = known.get(seen.instanceId);
      if (!row) continue;
      await write(trx, seen);
      if (seen.phase === "ready" && row.ready_at === null) firstReady.push(seen.instanceId);
      const isNews =
        row.phase !== seen.phase ||
        row.observed_generation !== seen.generation ||
        row.fail_code !== seen.failCode ||
        row.context_length !== seen.contextLength;
      const isOther = await observeAdapters(trx, row, seen.adapters);
      if (isNews || isOther) changed.add(row.deploy_id);
    }
    const isForgotten = await forget(trx, host, removed, changed);
    const strangers = present.filter((one) => !known.has(one.instanceId));
    const isNews = await writeUnknown(trx, host, strangers, removed, current.unknown_instances);
    for (const deployId of [...changed].sort()) await announce(trx, "deployment", deployId);
    if (isForgotten || isNews) await announce(trx, "host", host);
    return { isFenced: false, unknown: strangers.map((one) => one.instanceId) };
  });
  // Apart: controllers lock deployments before hosts, and this is told to callers that wait, nothing more.
  if (firstReady.length > 0) await noteStarts(db, firstReady);
  return written;
}

async function write(trx: Transaction<Database>, seen: Observation): Promise<void> {
  await trx
    .updateTable("instance")
    .set({
      phase: seen.phase,
      ...(seen.phase === "ready" ? { ready_at: sql<Date>`coalesce(ready_at, now())` } : {}),
      observed_generation: seen.generation,
      fail_code: seen.failCode,
      fail_message: seen.failMessage,
      bytes_done: seen.bytesDone,
      bytes_total: seen.bytesTotal,
      restarts: seen.restarts,
      context_length: seen.contextLength,
      identity: seen.identity,
      ssh_port: seen.sshPort,
      ssh_address: seen.sshAddress,
      updated_at: sql<Date>`now()`,
    })
    .where("instance_id", "=", seen.instanceId)
    .execute();
}

/**
 * How long a start took is what the next caller who waits for one is told. One row at a time, so that it waits for nobody who
 * waits for it; what cannot be written is left out: the report itself is.
 */
async function noteStarts(db: Kysely<Database>, ids: readonly InstanceId[]): Promise<void> {
  for (const id of ids)
    await sql`
      update deployment set start_ms = least(86400000, extract(epoch from i.ready_at - i.created_at) * 1000)::integer
      from instance i where i.instance_id = ${id} and deployment.deploy_id = i.deploy_id`
      .execute(db)
      .catch(() => {});
}

/** Only what we asked to be removed is forgotten; with its row go its GPU claims, and the tombstone from the desired set. */
async function forget(
  trx: Transaction<Database>,
  host: HostId,
  removed: readonly InstanceId[],
  changed: Set<string>,
): Promise<boolean> {
  if (removed.length === 0) return false;
  const gone = await trx
    .deleteFrom("instance")
    .where("host_id", "=", host)
    .where("instance_id", "in", [...removed])
    .where("tombstoned_at", "is not", null)
    .returning(["deploy_id", "instance_id"])
    .execute();
  if (gone.length === 0) return false;
  await trx
    .insertInto("ended_instance")
    .values(gone.map((row) => ({ instance_id: row.instance_id, host_id: host, seen_again_at: null })))
    .onConflict((at) => at.doNothing())
    .execute();
  for (const row of gone) changed.add(row.deploy_id);
  await trx
    .updateTable("host")
    .set((eb) => ({ generation: eb("generation", "+", 1n), revision: eb("revision", "+", 1n) }))
    .where("host_id", "=", host)
    .execute();
  return true;
}
