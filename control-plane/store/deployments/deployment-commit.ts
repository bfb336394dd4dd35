// What a controller decided, in one transaction that writes everything or nothing: guarded by its lock token, the
// deployment's revision and the revision of every host it placed on.
import { type Kysely, sql, type Transaction, type UpdateObject } from "kysely";
import type { InstanceId } from "../../../proto/ids.ts";
import type { Claimed, NewInstance, StandardArgs, Verdict } from "../../deployments/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import type { Database } from "../core/schema.ts";
import { bumpHost } from "./deployment-changes.ts";
import { columnsOf, memoryColumnsOf, readSpecs, type Spec } from "./deployment-specs.ts";
import { moveReserve, moveSharing } from "./gpu-reserve-store.ts";

class LostRace extends Error {}

export async function commitVerdict(db: Kysely<Database>, claimed: Claimed, verdict: Verdict): Promise<boolean> {
  try {
    await inTransaction(db, (trx) => write(trx, claimed, verdict));
    return true;
  } catch (error) {
    if (error instanceof LostRace || isClaimRefused(error)) return false;
    throw error;
  }
}

async function write(trx: Transaction<Database>, claimed: Claimed, verdict: Verdict): Promise<void> {
  const { deployment, lockToken } = claimed;
  const isNewStatus = verdict.status !== deployment.status;
  // What ran before is wanted again: under a number of its own, since agents never go back to an older one.
  const isReturn = verdict.spec !== deployment.spec;
  const wantedAgain = isReturn ? [{ deployId: deployment.id, spec: verdict.spec }] : [];
  const [before] = (await readSpecs(trx, wantedAgain)).values();
  const generation = deployment.generation + (isReturn ? 1 : 0);
  const moved = await trx
    .updateTable("deployment")
    .set((eb) => ({
      revision: eb("revision", "+", 1n),
      status: verdict.status,
      failReason: verdict.failReason,
      generation,
      spec: verdict.spec,
      servingSpec: verdict.servingSpec,
      updateError: verdict.updateError,
      ...(before ? columnsOf({ ...before, standardArgs: keptArgs(deployment, before) }) : {}),
      ...(before?.memory ? memoryColumnsOf(before.memory, verdict.spec) : {}),
      ...(verdict.replacements === undefined
        ? {}
        : { replacements: verdict.replacements, replacedAt: sql<Date>`now()` }),
      pendingReasons: JSON.stringify(verdict.pendingReasons),
      lockOwner: null,
      lockExpiresAt: null,
      ...(isNewStatus ? { updatedAt: sql<Date>`now()` } : {}),
    }))
    .where("deployId", "=", deployment.id)
    .where("lockToken", "=", lockToken)
    .where("revision", "=", deployment.revision)
    .executeTakeFirst();
  if (moved.numUpdatedRows === 0n) throw new LostRace();

  if (verdict.reserve && !(await moveReserve(trx, verdict.reserve))) throw new LostRace();
  if (verdict.sharing && !(await moveSharing(trx, verdict.sharing))) throw new LostRace();

  const touched = await trx
    .selectFrom("instance")
    .select(["instanceId", "hostId"])
    .where("deployId", "=", deployment.id)
    .where("instanceId", "in", [...verdict.tombstones, ...verdict.revised, ""])
    .execute();
  const placedOn = Map.groupBy(verdict.placements, (placement) => placement.hostId as string);
  const hosts = [...new Set([...placedOn.keys(), ...touched.map((row) => row.hostId)])].sort();
  for (const host of hosts) await moveHost(trx, host, placedOn.get(host));
  const wanted = { generation, spec: verdict.spec };
  for (const placement of verdict.placements) await insertInstance(trx, claimed, placement, wanted);
  const now = sql<Date>`now()`;
  await changeInstances(trx, verdict.tombstones, { tombstonedAt: now });
  await changeInstances(trx, verdict.revised, wanted);
  await announce(trx, "deployment", deployment.id);
  for (const host of hosts) await announce(trx, "host", host);
}

/** What ran before, but no more requests at once than the owner wants by now: a lowered number has no spec of its own. */
function keptArgs(now: Claimed["deployment"], before: Spec): StandardArgs {
  const { standardArgs = {} } = before;
  const wanted = now.standardArgs?.maxConcurrentRequests ?? now.maxBatchSize;
  const isFewer = wanted < (standardArgs.maxConcurrentRequests ?? now.maxBatchSize);
  return isFewer ? { ...standardArgs, maxConcurrentRequests: wanted } : standardArgs;
}

/** Claims move the revision that the placement saw; somebody else's claim since then undoes everything. */
async function moveHost(
  trx: Transaction<Database>,
  hostId: string,
  placements: readonly NewInstance[] | undefined,
): Promise<void> {
  const seen = placements?.[0]?.hostRevision;
  if (seen === undefined) return bumpHost(trx, hostId);
  const moved = await trx
    .updateTable("host")
    .set((eb) => ({ generation: eb("generation", "+", 1n), revision: eb("revision", "+", 1n) }))
    .where("hostId", "=", hostId)
    .where("revision", "=", seen)
    .where("schedulable", "=", true)
    .executeTakeFirst();
  if (moved.numUpdatedRows === 0n) throw new LostRace();
}

async function changeInstances(
  trx: Transaction<Database>,
  ids: readonly InstanceId[],
  values: UpdateObject<Database, "instance">,
): Promise<void> {
  if (ids.length === 0) return;
  await trx
    .updateTable("instance")
    .set({ ...values, updatedAt: sql<Date>`now()` })
    .where("instanceId", "in", [...ids])
    .where("tombstonedAt", "is", null)
    .execute();
}

async function insertInstance(
  trx: Transaction<Database>,
  claimed: Claimed,
  placement: NewInstance,
  wanted: { readonly generation: number; readonly spec: number },
): Promise<void> {
  const { deployment } = claimed;
  await trx
    .insertInto("instance")
    .values({
      instanceId: placement.id,
      deployId: deployment.id,
      accountId: deployment.account,
      hostId: placement.hostId,
      ...wanted,
      gpuUuids: placement.gpus.map((gpu) => gpu.uuid),
      gpuShare: placement.gpuShare,
      gpuMemoryBytes: BigInt(placement.gpuMemoryBytes),
      grantedBytes: BigInt(placement.grantBytes),
      phase: "pending",
    })
    .execute();
  if (deployment.kind === "agent_instance") {
    // Its volume is where it runs first: it runs nowhere else from then on.
    await trx
      .updateTable("deployment")
      .set({ weights: sql`weights || jsonb_build_object('host', ${placement.hostId}::text)` })
      .where("deployId", "=", deployment.id)
      .execute();
  }
  if (placement.gpus.length > 0) await claimGpus(trx, deployment.account, placement);
}

/** GPUs that are the account's already are shared; those of another end the transaction. */
async function claimGpus(trx: Transaction<Database>, account: string, placement: NewInstance): Promise<void> {
  const shares = placement.gpus.map((gpu) => ({
    hostId: placement.hostId,
    gpuUuid: gpu.uuid,
    accountId: account,
    // Also of a GPU whose size nobody could read: all of it is taken once.
    memoryBytes: BigInt(placement.gpuMemoryBytes || Math.max(1, gpu.memoryBytes)),
  }));
  const sizes = new Map(placement.gpus.map((gpu) => [gpu.uuid, BigInt(Math.max(1, gpu.memoryBytes))]));
  const claimed = await trx
    .insertInto("gpuClaim")
    .values(
      shares.map((share) => ({
        ...share,
        memoryBytes: sizes.get(share.gpuUuid) ?? 0n,
        claimedBytes: share.memoryBytes,
      })),
    )
    .onConflict((at) =>
      at
        .constraint("gpu_claim_exclusive")
        .doUpdateSet((eb) => ({
          claimedBytes: sql<bigint>`${eb.ref("gpuClaim.claimedBytes")} + ${eb.ref("excluded.claimedBytes")}`,
        }))
        .whereRef("gpuClaim.accountId", "=", "excluded.accountId"),
    )
    .executeTakeFirst();
  if (Number(claimed.numInsertedOrUpdatedRows ?? 0n) < shares.length) throw new LostRace();
  await trx
    .insertInto("gpuShare")
    .values(shares.map((share) => ({ ...share, instanceId: placement.id })))
    .execute();
}

/** Somebody else's, or not enough of it. */
function isClaimRefused(error: unknown): boolean {
  const constraint = (error as { constraint?: unknown }).constraint;
  return uniqueViolation(error) === "gpu_claim_exclusive" || constraint === "gpu_claim_room";
}
