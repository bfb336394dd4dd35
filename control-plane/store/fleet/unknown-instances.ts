// Instances that run on a host without a row in this database. They are shown and hold their GPUs; ended ones get a tombstone.
import { sql } from "kysely";
import type { HostId, InstanceId } from "../../../proto/ids.ts";
import type { Present } from "../../deployments/store.ts";
import type { UnknownInstance } from "../../fleet/store.ts";
import type { Trx } from "../core/schema.ts";
import { now } from "../core/time.ts";

/** Stores the unknown instances of a host, whose row is locked. Returns true when the host changed and must be announced. */
export async function writeUnknown(
  trx: Trx,
  host: HostId,
  found: readonly Present[],
  removed: readonly InstanceId[],
  before: readonly UnknownInstance[],
): Promise<boolean> {
  const ids = found.map((one) => one.instanceId);
  const areTombstonesNew = await tombstoneAgain(trx, host, ids, removed);
  const ended = ids.length === 0 ? [] : await endedOnes(trx, host).where("instanceId", "in", ids).execute();
  const ending = new Set(ended.map((row) => row.instanceId));
  const now = found.map(
    ({ instanceId, deployId, gpuUuids, generation }): UnknownInstance => ({
      instanceId,
      deployId,
      gpuUuids,
      generation,
      isEnding: ending.has(instanceId),
    }),
  );
  const isNews = textOf(now) !== textOf(before);
  if (!areTombstonesNew && !isNews) return false;
  await trx
    .updateTable("host")
    .set((eb) => ({
      ...(areTombstonesNew ? { generation: eb("generation", "+", 1n) } : {}),
      revision: eb("revision", "+", 1n),
      unknownInstances: JSON.stringify(now),
    }))
    .where("hostId", "=", host)
    .execute();
  return true;
}

/** Returns true when the host's tombstones changed. */
async function tombstoneAgain(
  trx: Trx,
  host: HostId,
  ids: readonly InstanceId[],
  removed: readonly InstanceId[],
): Promise<boolean> {
  const again = await trx
    .updateTable("endedInstance")
    .set({ seenAgainAt: now })
    .where("hostId", "=", host)
    .where(sql<boolean>`instance_id = any(${[...ids]}::text[])`)
    .where("seenAgainAt", "is", null)
    .executeTakeFirst();
  const gone = await trx
    .updateTable("endedInstance")
    .set({ seenAgainAt: null })
    .where("hostId", "=", host)
    .where(sql<boolean>`instance_id = any(${[...removed]}::text[]) and instance_id <> all(${[...ids]}::text[])`)
    .where("seenAgainAt", "is not", null)
    .executeTakeFirst();
  return again.numUpdatedRows > 0n || gone.numUpdatedRows > 0n;
}

/** Ended instances that were observed again: their tombstones stay until the host confirms the removal again. */
export function endedOnes(trx: Trx, host: HostId) {
  return trx
    .selectFrom("endedInstance")
    .select("instanceId")
    .where("hostId", "=", host)
    .where("seenAgainAt", "is not", null);
}

/** Part of the host's condition; empty when there are none. */
export function unknownCondition(unknown: readonly UnknownInstance[]): string {
  const strange = unknown.filter((one) => !one.isEnding);
  if (strange.length === 0) return "";
  const named = strange.slice(0, 8).map(({ instanceId, deployId }) => `${instanceId} of ${deployId}`);
  const more = strange.length > named.length ? ` and ${strange.length - named.length} more` : "";
  return (
    `unknown_instances: ${named.join(", ")}${more} run there without a deployment, so their GPUs count as in use; ` +
    "`stoker node end-unknown` stops them"
  );
}

const textOf = (list: readonly UnknownInstance[]): string =>
  list
    .map(({ instanceId, gpuUuids, generation, isEnding }) => [instanceId, generation, isEnding, ...gpuUuids].join(" "))
    .sort()
    .join("\n");
