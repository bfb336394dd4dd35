// Stores a host's report. Locks the host's row first, which also fences an older session.
import { sql } from "kysely";
import type { HostId, InstanceId } from "../../../proto/ids.ts";
import type { Observation, Present } from "../../deployments/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import type { Db, Trx } from "../core/schema.ts";
import { now } from "../core/time.ts";
import { writeUnknown } from "../fleet/unknown-instances.ts";
import { observeAdapters } from "./adapter-rows.ts";

export async function writeObservations(
  db: Db,
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
      .select(["hostId", "unknownInstances"])
      .where("hostId", "=", host)
      .where("nodeEpoch", "=", nodeEpoch)
      .forUpdate()
      .executeTakeFirst();
    if (!current) return { isFenced: true, unknown: [] };

    const rows = await trx.selectFrom("instance").selectAll().where("hostId", "=", host).execute();
    const known = new Map(rows.map((row) => [row.instanceId, row]));
    const changed = new Set<string>();
    for (const seen of observations) {
      const row = known.get(seen.instanceId);
      if (!row) continue;
      await write(trx, seen);
      if (seen.phase === "ready" && row.readyAt === null) firstReady.push(seen.instanceId);
      const isNews =
        row.phase !== seen.phase ||
        row.observedGeneration !== seen.generation ||
        row.failCode !== seen.failCode ||
        row.contextLength !== seen.contextLength;
      const isOther = await observeAdapters(trx, row, seen.adapters);
      if (isNews || isOther) changed.add(row.deployId);
    }
    const isForgotten = await forget(trx, host, removed, changed);
    const strangers = present.filter((one) => !known.has(one.instanceId));
    const isNews = await writeUnknown(trx, host, strangers, removed, current.unknownInstances);
    for (const deployId of [...changed].sort()) await announce(trx, "deployment", deployId);
    if (isForgotten || isNews) await announce(trx, "host", host);
    return { isFenced: false, unknown: strangers.map((one) => one.instanceId) };
  });
  // Not in the transaction: controllers lock deployments before hosts, and this is only a hint for waiting callers.
  if (firstReady.length > 0) await noteStarts(db, firstReady);
  return written;
}

async function write(trx: Trx, seen: Observation): Promise<void> {
  await trx
    .updateTable("instance")
    .set({
      phase: seen.phase,
      ...(seen.phase === "ready" ? { readyAt: sql<Date>`coalesce(ready_at, now())` } : {}),
      observedGeneration: seen.generation,
      failCode: seen.failCode,
      failMessage: seen.failMessage,
      bytesDone: seen.bytesDone,
      bytesTotal: seen.bytesTotal,
      restarts: seen.restarts,
      contextLength: seen.contextLength,
      identity: seen.identity,
      sshPort: seen.sshPort,
      sshAddress: seen.sshAddress,
      updatedAt: now,
    })
    .where("instanceId", "=", seen.instanceId)
    .execute();
}

/**
 * Records how long a start took, for the next caller that waits for one. One row at a time, which excludes deadlocks; a write
 * that fails is ignored, because the report itself was stored.
 */
async function noteStarts(db: Db, ids: readonly InstanceId[]): Promise<void> {
  for (const id of ids)
    await sql`
      update deployment set start_ms = least(86400000, extract(epoch from i.ready_at - i.created_at) * 1000)::integer
      from instance i where i.instance_id = ${id} and deployment.deploy_id = i.deploy_id`
      .execute(db)
      .catch(() => {});
}

/** Deletes removed instances that have a tombstone, and with them their GPU claims. */
async function forget(trx: Trx, host: HostId, removed: readonly InstanceId[], changed: Set<string>): Promise<boolean> {
  if (removed.length === 0) return false;
  const gone = await trx
    .deleteFrom("instance")
    .where("hostId", "=", host)
    .where("instanceId", "in", [...removed])
    .where("tombstonedAt", "is not", null)
    .returning(["deployId", "instanceId"])
    .execute();
  if (gone.length === 0) return false;
  await trx
    .insertInto("endedInstance")
    .values(gone.map((row) => ({ instanceId: row.instanceId, hostId: host, seenAgainAt: null })))
    .onConflict((at) => at.doNothing())
    .execute();
  for (const row of gone) changed.add(row.deployId);
  await trx
    .updateTable("host")
    .set((eb) => ({ generation: eb("generation", "+", 1n), revision: eb("revision", "+", 1n) }))
    .where("hostId", "=", host)
    .execute();
  return true;
}
