// What runs on a host that its operator takes over, and this database does not know: it was placed after the backup that was
// restored. Where its deployment is known and is to run just that, it is known again, with its GPUs; the rest is told.
import { sql, type Transaction } from "kysely";
import type { InstanceId } from "../../../proto/ids.ts";
import type { AdoptedHost, GrantOf, Inventory, UnknownInstance } from "../../fleet/store.ts";
import type { Database } from "../core/schema.ts";

interface Host {
  readonly hostId: string;
  readonly inventory: Inventory;
  readonly unknownInstances: readonly UnknownInstance[];
}

/** The host's row is locked: whoever places there moves its revision, so that no claim comes in between. */
export async function adoptInstances(trx: Transaction<Database>, host: Host, grantOf: GrantOf): Promise<AdoptedHost> {
  const instances: InstanceId[] = [];
  const left: AdoptedHost["left"][number][] = [];
  const deployIds = new Set<string>();
  // What ended once is told to go again by itself.
  const there = host.unknownInstances.filter(({ isEnding }) => !isEnding);
  // One order of locks for all who lock deployments.
  for (const one of there.toSorted((a, b) => (a.deployId < b.deployId ? -1 : 1))) {
    const why = await adopt(trx, host, one, grantOf);
    if (why === undefined) {
      instances.push(one.instanceId as InstanceId);
      deployIds.add(one.deployId);
    } else left.push({ instanceId: one.instanceId, deployId: one.deployId, why });
  }
  return { instances, left, deployIds: [...deployIds].sort() };
}

const over = new Set(["stopped", "failed", "deleted"]);

/** Why it is not known again; undefined: it is. */
async function adopt(
  trx: Transaction<Database>,
  { hostId: host, inventory }: Host,
  one: UnknownInstance,
  grantOf: GrantOf,
): Promise<string | undefined> {
  const deployment = await trx
    .selectFrom("deployment")
    .select(["accountId", "kind", "status", "generation", "spec"])
    .where("deployId", "=", one.deployId)
    .where("deletedAt", "is", null)
    .forUpdate()
    .executeTakeFirst();
  if (!deployment) return "this database knows no such deployment";
  if (deployment.kind !== "model") return "it is no model server, and its disk or its money may be of another time";
  if (over.has(deployment.status)) return `its deployment is ${deployment.status}`;
  if (one.generation !== deployment.generation)
    return `it runs generation ${one.generation ?? "unknown"} of its deployment, which is at ${deployment.generation} here`;
  const gpus = inventory.gpus.filter((gpu) => one.gpuUuids.includes(gpu.uuid));
  if (gpus.length < one.gpuUuids.length) return "it runs on a GPU that its host does not list";
  // A slice and the GPU it is cut from exclude each other.
  const parts = inventory.gpus.filter(
    ({ parentUuid }) => parentUuid !== undefined && one.gpuUuids.includes(parentUuid),
  );
  const wholes = gpus.flatMap(({ parentUuid }) => parentUuid ?? []);
  const taken = await trx
    .selectFrom("gpuClaim")
    .select("gpuUuid")
    .where("hostId", "=", host)
    .where("gpuUuid", "in", [...one.gpuUuids, ...parts.map(({ uuid }) => uuid), ...wholes, ""])
    .executeTakeFirst();
  if (taken) return `its GPU ${taken.gpuUuid} is another instance's here`;
  const { numInsertedOrUpdatedRows: made } = await trx
    .insertInto("instance")
    .values({
      instanceId: one.instanceId,
      deployId: one.deployId,
      accountId: deployment.accountId,
      hostId: host,
      generation: deployment.generation,
      spec: deployment.spec,
      gpuUuids: [...one.gpuUuids],
      grantedBytes: BigInt(grantOf(one.gpuUuids, inventory)),
      phase: "pending",
    })
    .onConflict((at) => at.column("instanceId").doNothing())
    .executeTakeFirst();
  if (!made) return "this database knows it at another host";
  // A controller that counts instances just now must look again.
  await trx
    .updateTable("deployment")
    .set({ revision: sql<bigint>`revision + 1` })
    .where("deployId", "=", one.deployId)
    .execute();
  const accountId = deployment.accountId;
  // Also one that shared its GPU: how much of it was its own is not known any more.
  const shares = gpus.map((gpu) => ({
    hostId: host,
    gpuUuid: gpu.uuid,
    accountId,
    memoryBytes: BigInt(Math.max(1, gpu.memoryBytes)),
  }));
  if (shares.length === 0) return undefined;
  await trx
    .insertInto("gpuClaim")
    .values(shares.map((share) => ({ ...share, claimedBytes: share.memoryBytes })))
    .execute();
  await trx
    .insertInto("gpuShare")
    .values(shares.map((share) => ({ ...share, instanceId: one.instanceId })))
    .execute();
  return undefined;
}
