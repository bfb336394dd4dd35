// Writes verdicts of a controller in one transaction. Each is guarded by its lock token, its deployment's revision and the
// revision of every host of a placement; one that fails a guard is left out, and the others are written.
// INVARIANT: rows of deployments, hosts, GPU reserves and sharing are locked without waiting; a verdict whose row another writer
// holds is lost. Two waits remain while these rows are locked: for the first commit of a reserve or sharing row, and in `announce`
// for the commits of other announcing writers. Each is as long as a commit.
import { sql } from "kysely";
import type { AccountId, DeploymentId, HostId, InstanceId } from "../../../proto/ids.ts";
import type { Decision, GpuReserve, GpuSharing, NewInstance, StandardArgs } from "../../deployments/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import type { Db, Trx } from "../core/schema.ts";
import { now } from "../core/time.ts";
import { columnsOf, memoryColumnsOf, readSpecs, type Spec } from "./deployment-specs.ts";
import { moveReserve, moveSharing } from "./gpu-reserve-store.ts";

/** A claim that the guards should have refused. */
class ClaimLost extends Error {}

export async function commitVerdicts(db: Db, decisions: readonly Decision[]): Promise<ReadonlySet<DeploymentId>> {
  try {
    return await inTransaction(db, (trx) => write(trx, decisions));
  } catch (error) {
    if (error instanceof ClaimLost || isClaimRefused(error)) return new Set();
    throw error;
  }
}

async function write(trx: Trx, decisions: readonly Decision[]): Promise<ReadonlySet<DeploymentId>> {
  const held = await stillHeld(trx, decisions);
  const changed = await hostsOfChanged(trx, held);
  const hosts = await lockHosts(trx, [...held.flatMap(placedHosts), ...changed.values()]);
  const known = await claimsOn(trx, held.flatMap(placedHosts));
  const fitting = withoutConflict(held, { changed, hosts, claims: known });
  const reserved = await moveReserves(trx, fitting);
  const written = await startSharing(trx, reserved, known);
  if (written.length === 0) return new Set();

  await changeDeployments(trx, written);
  const placedOn = new Set(written.flatMap(placedHosts));
  const touched = written.flatMap(({ verdict }) => changedIn(verdict).map((id) => changed.get(id)));
  const moved = [...new Set([...placedOn, ...touched.filter((host) => host !== undefined)])].sort();
  await moveHosts(trx, moved, placedOn);
  await insertInstances(trx, written);
  await claimGpus(trx, written);
  await removeInstances(
    trx,
    written.flatMap(({ verdict }) => verdict.tombstones),
  );
  await reviseInstances(trx, written);
  const ids = written.map(({ claimed }) => claimed.deployment.id);
  await announce(trx, "deployment", ...ids);
  await announce(trx, "host", ...moved);
  return new Set(ids);
}

/** Locks the deployments, and returns the decisions whose claim and revision are unchanged. */
async function stillHeld(trx: Trx, decisions: readonly Decision[]): Promise<readonly Decision[]> {
  const ids = decisions.map(({ claimed }) => claimed.deployment.id);
  const rows = await trx
    .selectFrom("deployment")
    .select(["deployId", "lockToken", "revision"])
    .where(sql<boolean>`deploy_id = any(${ids}::text[])`)
    .orderBy("deployId")
    .forNoKeyUpdate()
    .skipLocked()
    .execute();
  const byId = new Map(rows.map((row) => [row.deployId, row]));
  return decisions.filter(({ claimed: { deployment, lockToken } }) => {
    const row = byId.get(deployment.id);
    return row?.lockToken === lockToken && row.revision === deployment.revision;
  });
}

/** Hosts of the instances that the decisions remove or change. */
async function hostsOfChanged(trx: Trx, decisions: readonly Decision[]): Promise<ReadonlyMap<InstanceId, HostId>> {
  const ids = decisions.flatMap(({ verdict }) => changedIn(verdict));
  if (ids.length === 0) return new Map();
  const rows = await trx
    .selectFrom("instance")
    .select(["instanceId", "hostId"])
    .where(sql<boolean>`instance_id = any(${ids}::text[])`)
    .execute();
  return new Map(rows.map((row) => [row.instanceId, row.hostId]));
}

interface HostRow {
  readonly revision: bigint;
  readonly schedulable: boolean;
}

async function lockHosts(trx: Trx, hosts: readonly HostId[]): Promise<ReadonlyMap<HostId, HostRow>> {
  if (hosts.length === 0) return new Map();
  const rows = await trx
    .selectFrom("host")
    .select(["hostId", "revision", "schedulable"])
    .where(sql<boolean>`host_id = any(${[...new Set(hosts)]}::text[])`)
    .orderBy("hostId")
    .forNoKeyUpdate()
    .skipLocked()
    .execute();
  return new Map(rows.map((row) => [row.hostId, row]));
}

interface Claim {
  readonly account: AccountId;
  readonly memoryBytes: bigint;
  readonly claimedBytes: bigint;
}

type Claims = ReadonlyMap<string, Claim>;

const gpuKey = (host: HostId, uuid: string) => `${host}/${uuid}`;

/** Claims on the locked hosts: none is added while the lock is held. */
async function claimsOn(trx: Trx, hosts: readonly HostId[]): Promise<Claims> {
  if (hosts.length === 0) return new Map();
  const rows = await trx
    .selectFrom("gpuClaim")
    .selectAll()
    .where(sql<boolean>`host_id = any(${[...new Set(hosts)]}::text[])`)
    .execute();
  return new Map(
    rows.map(({ hostId, gpuUuid, accountId, memoryBytes, claimedBytes }) => [
      gpuKey(hostId, gpuUuid),
      { account: accountId, memoryBytes, claimedBytes },
    ]),
  );
}

/** Applies the decisions in order, and leaves out those that the hosts or the claims before them refuse. */
function withoutConflict(
  decisions: readonly Decision[],
  seen: {
    readonly changed: ReadonlyMap<InstanceId, HostId>;
    readonly hosts: ReadonlyMap<HostId, HostRow>;
    readonly claims: Claims;
  },
): readonly Decision[] {
  const claims = new Map(seen.claims);
  const isLocked = (id: InstanceId) => {
    const host = seen.changed.get(id);
    // An instance that was removed in the meantime needs no change.
    return host === undefined || seen.hosts.has(host);
  };
  return decisions.filter(({ claimed: { deployment }, verdict }) => {
    if (!changedIn(verdict).every(isLocked)) return false;
    const added = new Map<string, Claim>();
    for (const { hostId, hostRevision, gpus, gpuMemoryBytes, claimant = deployment.account } of verdict.placements) {
      const host = seen.hosts.get(hostId);
      // Another claim moved the host since the placement read it.
      if (!host?.schedulable || host.revision !== hostRevision) return false;
      for (const gpu of gpus) {
        const key = gpuKey(hostId, gpu.uuid);
        const before = added.get(key) ?? claims.get(key);
        const memoryBytes = before?.memoryBytes ?? sizeOf(gpu);
        const claimedBytes = (before?.claimedBytes ?? 0n) + shareOf(gpu, gpuMemoryBytes);
        if ((before && before.account !== claimant) || claimedBytes > memoryBytes) return false;
        added.set(key, { account: claimant, memoryBytes, claimedBytes });
      }
    }
    for (const [key, claim] of added) claims.set(key, claim);
    return true;
  });
}

const placedHosts = ({ verdict }: Decision): readonly HostId[] => verdict.placements.map(({ hostId }) => hostId);
const changedIn = ({ tombstones, revised }: Decision["verdict"]): readonly InstanceId[] => [...tombstones, ...revised];

type NewGpu = NewInstance["gpus"][number];

/** A GPU of unknown size is claimed once, as a whole. */
const sizeOf = (gpu: NewGpu) => BigInt(Math.max(1, gpu.memoryBytes));
const shareOf = (gpu: NewGpu, gpuMemoryBytes: number) =>
  gpu.claimBytes !== undefined ? BigInt(gpu.claimBytes) : gpuMemoryBytes > 0 ? BigInt(gpuMemoryBytes) : sizeOf(gpu);

/** Leaves out those that counted free GPUs of a type before another controller claimed some. */
async function moveReserves(trx: Trx, decisions: readonly Decision[]): Promise<readonly Decision[]> {
  const reserves = new Map<string, Pick<GpuReserve, "gpu" | "revision">>();
  for (const { verdict } of decisions) if (verdict.reserve) reserves.set(verdict.reserve.gpu, verdict.reserve);
  const lost = new Set<string>();
  for (const [gpu, reserve] of [...reserves].sort(byKey)) if (!(await moveReserve(trx, reserve))) lost.add(gpu);
  return decisions.filter(({ verdict }) => !verdict.reserve || !lost.has(verdict.reserve.gpu));
}

/** Leaves out those that share a GPU nobody uses yet, although their account started to share another one. */
async function startSharing(trx: Trx, decisions: readonly Decision[], claims: Claims): Promise<readonly Decision[]> {
  const keyOf = ({ verdict }: Decision): string | undefined => {
    const isFirst = ({ hostId, gpus, gpuMemoryBytes }: NewInstance) =>
      gpuMemoryBytes > 0 && gpus.some(({ uuid }) => !claims.has(gpuKey(hostId, uuid)));
    const { sharing } = verdict;
    return sharing && verdict.placements.some(isFirst) ? `${sharing.account}/${sharing.gpu}` : undefined;
  };
  const starting = new Map<string, GpuSharing>();
  for (const one of decisions) {
    const key = keyOf(one);
    if (key !== undefined && one.verdict.sharing) starting.set(key, one.verdict.sharing);
  }
  const lost = new Set<string>();
  for (const [key, sharing] of [...starting].sort(byKey)) if (!(await moveSharing(trx, sharing))) lost.add(key);
  return decisions.filter((one) => !lost.has(keyOf(one) ?? ""));
}

const byKey = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]) => (a < b ? -1 : 1);

const isReturn = ({ claimed, verdict }: Decision) => verdict.spec !== claimed.deployment.spec;

/** A return to an earlier specification gets a new generation, because agents never go back to an older one. */
const generationOf = (one: Decision) => one.claimed.deployment.generation + (isReturn(one) ? 1 : 0);

async function changeDeployments(trx: Trx, decisions: readonly Decision[]): Promise<void> {
  const rows = decisions.map((one) => {
    const { deployment } = one.claimed;
    const { status, failReason, spec, servingSpec, updateError, pendingReasons, replacements, placements } =
      one.verdict;
    return {
      deploy_id: deployment.id,
      status,
      fail_reason: failReason,
      generation: generationOf(one),
      spec,
      serving_spec: servingSpec,
      update_error: updateError,
      pending_reasons: pendingReasons,
      replacements: replacements ?? null,
      is_new_status: status !== deployment.status,
      // The volume of an agent instance stays on the first host, so the instance runs nowhere else.
      volume_host: deployment.kind === "agent_instance" ? (placements[0]?.hostId ?? null) : null,
    };
  });
  await sql`
    update deployment d set
      revision = d.revision + 1, status = w.status, fail_reason = w.fail_reason, generation = w.generation, spec = w.spec,
      serving_spec = w.serving_spec, update_error = w.update_error, pending_reasons = w.pending_reasons,
      replacements = coalesce(w.replacements, d.replacements),
      replaced_at = case when w.replacements is null then d.replaced_at else now() end,
      updated_at = case when w.is_new_status then now() else d.updated_at end,
      weights = case when w.volume_host is null then d.weights
        else d.weights || jsonb_build_object('host', w.volume_host) end,
      lock_owner = null, lock_expires_at = null
    from json_to_recordset(${JSON.stringify(rows)}::json) as w (deploy_id text, status text, fail_reason text,
      generation integer, spec integer, serving_spec integer, update_error text, pending_reasons jsonb,
      replacements integer, is_new_status boolean, volume_host text)
    where d.deploy_id = w.deploy_id`.execute(trx);
  const returns = decisions.filter(isReturn);
  const specs = await readSpecs(
    trx,
    returns.map(({ claimed, verdict }) => ({ deployId: claimed.deployment.id, spec: verdict.spec })),
  );
  for (const { claimed, verdict } of returns) {
    const { deployment } = claimed;
    const before = specs.get(`${deployment.id}/${verdict.spec}`);
    if (!before) continue;
    await trx
      .updateTable("deployment")
      .set({
        ...columnsOf({ ...before, standardArgs: keptArgs(deployment, before) }),
        ...(before.memory ? memoryColumnsOf(before.memory, verdict.spec) : {}),
      })
      .where("deployId", "=", deployment.id)
      .execute();
  }
}

/** The earlier settings, with at most the currently desired concurrency: lowering it makes no new specification. */
function keptArgs(now: Decision["claimed"]["deployment"], before: Spec): StandardArgs {
  const { standardArgs = {} } = before;
  const desired = now.standardArgs?.maxConcurrentRequests ?? now.maxBatchSize;
  const isFewer = desired < (standardArgs.maxConcurrentRequests ?? now.maxBatchSize);
  return isFewer ? { ...standardArgs, maxConcurrentRequests: desired } : standardArgs;
}

/** Raises the generation of their desired sets, and the revision of those with new claims. */
async function moveHosts(trx: Trx, hosts: readonly HostId[], claimed: ReadonlySet<HostId>): Promise<void> {
  if (hosts.length === 0) return;
  await trx
    .updateTable("host")
    .set((eb) => ({
      generation: eb("generation", "+", 1n),
      revision: sql<bigint>`revision + (host_id = any(${[...claimed]}::text[]))::int`,
    }))
    .where(sql<boolean>`host_id = any(${hosts}::text[])`)
    .execute();
}

async function removeInstances(trx: Trx, ids: readonly InstanceId[]): Promise<void> {
  if (ids.length === 0) return;
  await trx
    .updateTable("instance")
    .set({ tombstonedAt: now, updatedAt: now })
    .where(sql<boolean>`instance_id = any(${ids}::text[])`)
    .where("tombstonedAt", "is", null)
    .execute();
}

async function reviseInstances(trx: Trx, decisions: readonly Decision[]): Promise<void> {
  const rows = decisions.flatMap((one) =>
    one.verdict.revised.map((id) => ({ instance_id: id, generation: generationOf(one), spec: one.verdict.spec })),
  );
  if (rows.length === 0) return;
  await sql`
    update instance i set generation = w.generation, spec = w.spec, updated_at = now()
    from json_to_recordset(${JSON.stringify(rows)}::json) as w (instance_id text, generation integer, spec integer)
    where i.instance_id = w.instance_id and i.tombstoned_at is null`.execute(trx);
}

async function insertInstances(trx: Trx, decisions: readonly Decision[]): Promise<void> {
  const rows = decisions.flatMap((one) =>
    one.verdict.placements.map((placement) => ({
      instance_id: placement.id,
      deploy_id: one.claimed.deployment.id,
      account_id: one.claimed.deployment.account,
      host_id: placement.hostId,
      generation: generationOf(one),
      spec: one.verdict.spec,
      gpu_uuids: placement.gpus.map((gpu) => gpu.uuid),
      gpu_share: placement.gpuShare,
      gpu_memory_bytes: placement.gpuMemoryBytes,
      granted_bytes: placement.grantBytes,
    })),
  );
  if (rows.length === 0) return;
  await sql`
    insert into instance (instance_id, deploy_id, account_id, host_id, generation, spec, gpu_uuids, gpu_share,
      gpu_memory_bytes, granted_bytes, phase)
    select instance_id, deploy_id, account_id, host_id, generation, spec, gpu_uuids, gpu_share, gpu_memory_bytes,
      granted_bytes, 'pending'
    from json_to_recordset(${JSON.stringify(rows)}::json) as w (instance_id text, deploy_id text, account_id text,
      host_id text, generation integer, spec integer, gpu_uuids text[], gpu_share double precision,
      gpu_memory_bytes bigint, granted_bytes bigint)`.execute(trx);
}

/** Shares GPUs that the account uses already, or that instances use in turn; a GPU of another account aborts the transaction. */
async function claimGpus(trx: Trx, decisions: readonly Decision[]): Promise<void> {
  const shares = decisions.flatMap(({ claimed, verdict }) =>
    verdict.placements.flatMap(({ id, hostId, gpus, gpuMemoryBytes, claimant = claimed.deployment.account }) =>
      gpus.map((gpu) => ({
        ...{ hostId, gpuUuid: gpu.uuid, accountId: claimant, instanceId: id },
        sizeBytes: sizeOf(gpu),
        memoryBytes: shareOf(gpu, gpuMemoryBytes),
      })),
    ),
  );
  if (shares.length === 0) return;
  // One statement changes a row once: sum up the shares of each GPU.
  const claims = [...Map.groupBy(shares, ({ hostId, gpuUuid }) => gpuKey(hostId, gpuUuid)).values()].map((all) => ({
    ...(all[0] as (typeof all)[number]),
    claimedBytes: all.reduce((sum, one) => sum + one.memoryBytes, 0n),
  }));
  const { numAffectedRows = 0n } = await sql`
    insert into gpu_claim (host_id, gpu_uuid, account_id, memory_bytes, claimed_bytes)
    select * from unnest(${claims.map((one) => one.hostId)}::text[], ${claims.map((one) => one.gpuUuid)}::text[],
      ${claims.map((one) => one.accountId)}::text[], ${claims.map((one) => String(one.sizeBytes))}::bigint[],
      ${claims.map((one) => String(one.claimedBytes))}::bigint[])
    on conflict on constraint gpu_claim_exclusive do update
      set claimed_bytes = gpu_claim.claimed_bytes + excluded.claimed_bytes
      where gpu_claim.account_id = excluded.account_id`.execute(trx);
  if (Number(numAffectedRows) < claims.length) throw new ClaimLost();
  await sql`
    insert into gpu_share (host_id, gpu_uuid, instance_id, account_id, memory_bytes)
    select * from unnest(${shares.map((one) => one.hostId)}::text[], ${shares.map((one) => one.gpuUuid)}::text[],
      ${shares.map((one) => one.instanceId)}::text[], ${shares.map((one) => one.accountId)}::text[],
      ${shares.map((one) => String(one.memoryBytes))}::bigint[])`.execute(trx);
}

/** True when a GPU belongs to another account, or has not enough free memory. */
function isClaimRefused(error: unknown): boolean {
  const constraint = (error as { constraint?: unknown }).constraint;
  return uniqueViolation(error) === "gpu_claim_exclusive" || constraint === "gpu_claim_room";
}
