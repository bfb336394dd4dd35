// Adopts instances that run on a host but are missing from this database, because they were placed after the restored backup.
// An instance is adopted with its GPUs when its deployment exists and still desires it; otherwise the reason is returned.
import { sql } from "kysely";
import type { DeploymentId, HostId, InstanceId } from "../../../proto/ids.ts";
import type { AdoptedHost, GrantOf, Inventory, UnknownInstance } from "../../fleet/store.ts";
import type { Trx } from "../core/schema.ts";

interface Host {
  readonly hostId: HostId;
  readonly inventory: Inventory;
  readonly unknownInstances: readonly UnknownInstance[];
}

/** Call it with the host's row locked, so that no placement claims GPUs there. */
export async function adoptInstances(trx: Trx, host: Host, grantOf: GrantOf): Promise<AdoptedHost> {
  const instances: InstanceId[] = [];
  const left: AdoptedHost["left"][number][] = [];
  const deployIds = new Set<DeploymentId>();
  // Ended instances get a tombstone again.
  const running = host.unknownInstances.filter(({ isEnding }) => !isEnding);
  // Every transaction locks deployments in this order.
  for (const one of running.toSorted((a, b) => (a.deployId < b.deployId ? -1 : 1))) {
    const why = await adopt(trx, host, one, grantOf);
    if (why === undefined) {
      instances.push(one.instanceId);
      deployIds.add(one.deployId);
    } else left.push({ instanceId: one.instanceId, deployId: one.deployId, why });
  }
  return { instances, left, deployIds: [...deployIds].sort() };
}

const over = new Set(["stopped", "failed", "deleted"]);

/** Returns why the instance was not adopted; undefined: it was. */
async function adopt(
  trx: Trx,
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
  if (!deployment) return "its deployment does not exist in this database";
  if (deployment.kind !== "model")
    return "it is not a model server, and its disk or charges may not match this database";
  if (over.has(deployment.status)) return `its deployment is ${deployment.status}`;
  if (one.generation !== deployment.generation)
    return `it runs generation ${one.generation ?? "unknown"} of its deployment, which is at ${deployment.generation} here`;
  const gpus = inventory.gpus.filter((gpu) => one.gpuUuids.includes(gpu.uuid));
  if (gpus.length < one.gpuUuids.length) return "it runs on a GPU that its host does not list";
  // A MIG slice and its GPU exclude each other.
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
  if (taken) return `its GPU ${taken.gpuUuid} is used by another instance here`;
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
  if (!made) return "this database has it on another host";
  // Invalidates a concurrent verdict, which counted instances.
  await trx
    .updateTable("deployment")
    .set({ revision: sql<bigint>`revision + 1` })
    .where("deployId", "=", one.deployId)
    .execute();
  const accountId = deployment.accountId;
  // Claims all of a shared GPU, because the instance's share is unknown.
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
