// What runs on a host and no instance row names. It is shown and holds its GPUs; what had ended before is told to go again.
import { sql, type Transaction } from "kysely";
import type { InstanceId } from "../../../proto/ids.ts";
import type { Present } from "../../deployments/store.ts";
import type { UnknownInstance } from "../../fleet/store.ts";
import type { Database } from "../core/schema.ts";

/** `strangers`: all that run there unknown. The host's row is locked. True when the host changed: it is to be announced. */
export async function writeUnknown(
  trx: Transaction<Database>,
  host: string,
  strangers: readonly Present[],
  removed: readonly InstanceId[],
  before: readonly UnknownInstance[],
): Promise<boolean> {
  const isTold = await tombstoneAgain(trx, host, strangers, removed);
  const ids = strangers.map((one) => one.instanceId);
  const ended = ids.length === 0 ? [] : await endedOnes(trx, host).where("instanceId", "in", ids).execute();
  const ending = new Set(ended.map((row) => row.instanceId));
  const now = strangers.map(
    ({ instanceId, deployId, gpuUuids, generation }): UnknownInstance => ({
      instanceId,
      deployId,
      gpuUuids,
      generation,
      isEnding: ending.has(instanceId),
    }),
  );
  const isNews = textOf(now) !== textOf(before);
  if (!isTold && !isNews) return false;
  await trx
    .updateTable("host")
    .set((eb) => ({
      ...(isTold ? { generation: eb("generation", "+", 1n) } : {}),
      revision: eb("revision", "+", 1n),
      unknownInstances: JSON.stringify(now),
    }))
    .where("hostId", "=", host)
    .execute();
  return true;
}

/** True when the host's tombstones changed. */
async function tombstoneAgain(
  trx: Transaction<Database>,
  host: string,
  strangers: readonly Present[],
  removed: readonly InstanceId[],
): Promise<boolean> {
  const ids = strangers.map((one) => one.instanceId);
  const again = await trx
    .updateTable("endedInstance")
    .set({ seenAgainAt: sql<Date>`now()` })
    .where("hostId", "=", host)
    .where("instanceId", "in", ids.length > 0 ? ids : [""])
    .where("seenAgainAt", "is", null)
    .executeTakeFirst();
  const gone = await trx
    .updateTable("endedInstance")
    .set({ seenAgainAt: null })
    .where("hostId", "=", host)
    .where("instanceId", "in", removed.length > 0 ? [...removed] : [""])
    .where("instanceId", "not in", ids.length > 0 ? ids : [""])
    .where("seenAgainAt", "is not", null)
    .executeTakeFirst();
  return again.numUpdatedRows > 0n || gone.numUpdatedRows > 0n;
}

/** Ended instances that were seen again: their tombstones stand until the host says once more that they are gone. */
export function endedOnes(trx: Transaction<Database>, host: string) {
  return trx
    .selectFrom("endedInstance")
    .select("instanceId")
    .where("hostId", "=", host)
    .where("seenAgainAt", "is not", null);
}

/** For the host's condition; empty where nothing is to be told. */
export function unknownCondition(unknown: readonly UnknownInstance[]): string {
  const strange = unknown.filter((one) => !one.isEnding);
  if (strange.length === 0) return "";
  const named = strange.slice(0, 8).map(({ instanceId, deployId }) => `${instanceId} of ${deployId}`);
  const more = strange.length > named.length ? ` and ${strange.length - named.length} more` : "";
  return (
    `unknown_instances: ${named.join(", ")}${more} run there and no deployment knows them, so their GPUs count as taken; ` +
    "`stoker node end-unknown` ends them"
  );
}

const textOf = (list: readonly UnknownInstance[]): string =>
  list
    .map(({ instanceId, gpuUuids, generation, isEnding }) => [instanceId, generation, isEnding, ...gpuUuids].join(" "))
    .sort()
    .join("\n");
