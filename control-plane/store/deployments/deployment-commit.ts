// Writes a controller's verdict in one transaction, guarded by its lock token, the deployment's revision and the revision of
// every host of a placement.
import { sql, type UpdateObject } from "kysely";
import type { AccountId, HostId, InstanceId } from "../../../proto/ids.ts";
import type { Claimed, NewInstance, StandardArgs, Verdict } from "../../deployments/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import type { Database, Db, Trx } from "../core/schema.ts";
import { now } from "../core/time.ts";
import { bumpHost } from "./deployment-changes.ts";
import { columnsOf, memoryColumnsOf, readSpecs, type Spec } from "./deployment-specs.ts";
import { moveReserve, moveSharing } from "./gpu-reserve-store.ts";

class LostRace extends Error {}

export async function commitVerdict(db: Db, claimed: Claimed, verdict: Verdict): Promise<boolean> {
  try {
    await inTransaction(db, (trx) => write(trx, claimed, verdict));
    return true;
  } catch (error) {
    if (error instanceof LostRace || isClaimRefused(error)) return false;
    throw error;
  }
}

async function write(trx: Trx, claimed: Claimed, verdict: Verdict): Promise<void> {
  const { deployment, lockToken } = claimed;
  const isNewStatus = verdict.status !== deployment.status;
  // A return to an earlier specification gets a new generation, because agents never go back to an older one.
  const isReturn = verdict.spec !== deployment.spec;
  const restored = isReturn ? [{ deployId: deployment.id, spec: verdict.spec }] : [];
  const [before] = (await readSpecs(trx, restored)).values();
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
      ...(verdict.replacements === undefined ? {} : { replacements: verdict.replacements, replacedAt: now }),
      pendingReasons: JSON.stringify(verdict.pendingReasons),
      lockOwner: null,
      lockExpiresAt: null,
      ...(isNewStatus ? { updatedAt: now } : {}),
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
    .where(sql<boolean>`instance_id = any(${[...verdict.tombstones, ...verdict.revised]}::text[])`)
    .execute();
  const placedOn = Map.groupBy(verdict.placements, (placement) => placement.hostId);
  const hosts = [...new Set([...placedOn.keys(), ...touched.map((row) => row.hostId)])].sort();
  for (const host of hosts) await moveHost(trx, host, placedOn.get(host));
  const wanted = { generation, spec: verdict.spec };
  for (const placement of verdict.placements) await insertInstance(trx, claimed, placement, wanted);
  await changeInstances(trx, verdict.tombstones, { tombstonedAt: now });
  await changeInstances(trx, verdict.revised, wanted);
  await announce(trx, "deployment", deployment.id);
  for (const host of hosts) await announce(trx, "host", host);
}

/** The earlier settings, with at most the currently desired concurrency: lowering it makes no new specification. */
function keptArgs(now: Claimed["deployment"], before: Spec): StandardArgs {
  const { standardArgs = {} } = before;
  const desired = now.standardArgs?.maxConcurrentRequests ?? now.maxBatchSize;
  const isFewer = desired < (standardArgs.maxConcurrentRequests ?? now.maxBatchSize);
  return isFewer ? { ...standardArgs, maxConcurrentRequests: desired } : standardArgs;
}

/** Moves the host's revision; throws LostRace when another claim moved it since the placement read it. */
async function moveHost(trx: Trx, hostId: HostId, placements: readonly NewInstance[] | undefined): Promise<void> {
  const seen = placements?.[0]?.hostRevision;
  if (seen === undefined) return void (await bumpHost(trx, hostId));
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
  trx: Trx,
  ids: readonly InstanceId[],
  values: UpdateObject<Database, "instance">,
): Promise<void> {
  if (ids.length === 0) return;
  await trx
    .updateTable("instance")
    .set({ ...values, updatedAt: now })
    .where("instanceId", "in", [...ids])
    .where("tombstonedAt", "is", null)
    .execute();
}

async function insertInstance(
  trx: Trx,
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
    // Its volume stays on the first host, so the instance runs nowhere else.
    await trx
      .updateTable("deployment")
      .set({ weights: sql`weights || jsonb_build_object('host', ${placement.hostId}::text)` })
      .where("deployId", "=", deployment.id)
      .execute();
  }
  if (placement.gpus.length > 0) await claimGpus(trx, deployment.account, placement);
}

/** Shares GPUs that the account uses already; a GPU of another account aborts the transaction. */
async function claimGpus(trx: Trx, account: AccountId, placement: NewInstance): Promise<void> {
  const shares = placement.gpus.map((gpu) => ({
    hostId: placement.hostId,
    gpuUuid: gpu.uuid,
    accountId: account,
    // A GPU of unknown size is claimed once, as a whole.
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

/** True when the GPU belongs to another account, or has not enough free memory. */
function isClaimRefused(error: unknown): boolean {
  const constraint = (error as { constraint?: unknown }).constraint;
  return uniqueViolation(error) === "gpu_claim_exclusive" || constraint === "gpu_claim_room";
}
