// Registers a host: issues its epoch, detects a database older than the host's state, and two agents with one identity.

import { type Selectable, sql } from "kysely";
import type { DeploymentId, HostId, InstanceId } from "../../../proto/ids.ts";
import type { Act } from "../../act.ts";
import type {
  AdoptedHost,
  GrantOf,
  Inventory,
  Registered,
  Registration,
  TicketKeySeal,
  UnknownInstance,
} from "../../fleet/store.ts";
import { auditAct, auditSystem } from "../accounts/audit-rows.ts";
import { announce } from "../core/change-feed.ts";
import type { Database, Trx } from "../core/schema.ts";
import { now } from "../core/time.ts";
import { cordonFaulty } from "./gpu-cordons.ts";

type HostRow = Selectable<Database["host"]>;

const keptRuns = 8;
const cloneAlert =
  "cloned_identity: two agents use this host's identity, because its disk was copied; the last one that registered serves. " +
  "Stop the copy and remove its folder; if you do not know which one it is, revoke the host and join it again";
const behindCondition =
  "control_plane_behind: the agent has applied a newer state than this database has, so nothing changes there; " +
  "adopt the host (`stoker node adopt`) if this control plane is the right one";

export async function registerHost(
  trx: Trx,
  seal: TicketKeySeal,
  host: Registration,
  leaseMs: number,
): Promise<Registered> {
  const row = await trx
    .selectFrom("host")
    .selectAll()
    .select(sql<boolean>`seen_at > now() - ${leaseMs} * interval '1 millisecond'`.as("isAlive"))
    .where("hostId", "=", host.hostId)
    .forUpdate()
    .executeTakeFirst();
  // Each process has its own run id: a superseded run that returns was running beside its successor.
  const isClone = row !== undefined && host.runId !== "" && row.supersededRuns.includes(host.runId);
  if (isClone && row.identityAlert === "") await raiseAlert(trx, host);
  if (isClone && row.isAlive) {
    if (row.identityAlert === "") await announce(trx, "host", host.hostId);
    return { kind: "superseded" };
  }
  // A higher epoch was issued by a database that continued after the restored backup.
  const isBehind = row ? row.behindEpoch !== null || host.highestEpoch > row.nodeEpoch : host.highestEpoch > 0n;
  const values = {
    hostname: host.hostname,
    advertise: host.advertise,
    inventory: JSON.stringify(host.inventory),
    ticketKey: seal.seal(host.ticketKey, host.hostId),
    agentVersion: host.agentVersion,
    seenAt: now,
    runId: host.runId,
    runBeganAt: row && row.runId === host.runId ? row.runBeganAt : now,
    supersededRuns: supersededBy(host.runId, row),
    nodeEpoch: isBehind ? (row?.nodeEpoch ?? 0n) : sql<bigint>`nextval('node_epoch')`,
    ...(isBehind
      ? {
          behindEpoch: largest(host.highestEpoch, row?.behindEpoch ?? 0n),
          behindGeneration: largest(host.generation, row?.behindGeneration ?? 0n),
          schedulable: false,
          condition: behindCondition,
        }
      : {}),
  };
  const { nodeEpoch } = await trx
    .insertInto("host")
    .values({ hostId: host.hostId, ...values, behindEpoch: values.behindEpoch ?? null })
    .onConflict((at) => at.column("hostId").doUpdateSet({ ...values, revision: (eb) => eb("host.revision", "+", 1n) }))
    .returning("nodeEpoch")
    .executeTakeFirstOrThrow();
  await cordonFaulty(trx, host.hostId, host.inventory);
  await announce(trx, "host", host.hostId);
  return { kind: "registered", nodeEpoch, isBehind, isClone };
}

/** Undefined when there is nothing to adopt. */
export async function adoptHost(trx: Trx, host: HostId, act: Act, grantOf: GrantOf): Promise<AdoptedHost | undefined> {
  const row = await trx.selectFrom("host").selectAll().where("hostId", "=", host).forUpdate().executeTakeFirst();
  if (!row || row.behindEpoch === null) return undefined;
  const adopted = await adoptInstances(trx, row, grantOf);
  const known = new Set<string>(adopted.instances);
  const unknown = row.unknownInstances.filter((one) => !known.has(one.instanceId));
  // 1,000 above, so that epochs issued concurrently are also higher.
  await sql`
    select setval('node_epoch', ${row.behindEpoch}::bigint + 1000)
    where ${row.behindEpoch}::bigint >= (select last_value from node_epoch)`.execute(trx);
  await trx
    .updateTable("host")
    .set({
      nodeEpoch: sql<bigint>`nextval('node_epoch')`,
      generation: largest(row.generation, row.behindGeneration) + 1n,
      behindEpoch: null,
      condition: "",
      unknownInstances: JSON.stringify(unknown),
      revision: (eb) => eb("revision", "+", 1n),
    })
    .where("hostId", "=", host)
    .execute();
  await auditAct(trx, act, {
    action: "node.adopt",
    subject: host,
    account: null,
    before: { node_epoch: `${row.nodeEpoch}`, obeyed_epoch: `${row.behindEpoch}` },
    after: { instances: adopted.instances, left: adopted.left },
  });
  await announce(trx, "deployment", ...adopted.deployIds);
  await announce(trx, "host", host);
  return adopted;
}

async function raiseAlert(trx: Trx, host: Registration): Promise<void> {
  await trx.updateTable("host").set({ identityAlert: cloneAlert }).where("hostId", "=", host.hostId).execute();
  await auditSystem(trx, {
    action: "node.clone",
    subject: host.hostId,
    account: null,
    after: { hostname: host.hostname, advertise: host.advertise },
    note: "two agents registered with the identity of one host",
  });
}

function supersededBy(runId: string, row: Pick<HostRow, "runId" | "supersededRuns"> | undefined): string[] {
  if (!row || row.runId === runId || row.runId === "") return row?.supersededRuns ?? [];
  return [row.runId, ...row.supersededRuns.filter((run) => run !== runId)].slice(0, keptRuns);
}

const largest = (a: bigint, b: bigint): bigint => (a > b ? a : b);

interface Host {
  readonly hostId: HostId;
  readonly inventory: Inventory;
  readonly unknownInstances: readonly UnknownInstance[];
}

/**
 * Adopts instances that were placed after the restored backup, if their deployment exists and still desires them. Call it with the host's row locked, so that no placement claims GPUs there.
 */
async function adoptInstances(trx: Trx, host: Host, grantOf: GrantOf): Promise<AdoptedHost> {
  const instances: InstanceId[] = [];
  const left: AdoptedHost["left"][number][] = [];
  const deployIds = new Set<DeploymentId>();
  // Ended instances get a tombstone again.
  const running = host.unknownInstances.filter(({ isEnding }) => !isEnding);
  const deployments = await lockDeployments(trx, new Set(running.map(({ deployId }) => deployId)));
  // An instance that never sleeps excludes all others of its GPU: those that use it in turn come first, so that fewer are left.
  const sleeps = (one: UnknownInstance) => (deployments.get(one.deployId)?.sleepAfter ?? 0) > 0;
  for (const one of [...running.filter(sleeps), ...running.filter((each) => !sleeps(each))]) {
    const why = await adopt(trx, host, one, { deployment: deployments.get(one.deployId), grantOf });
    if (why === undefined) {
      instances.push(one.instanceId);
      deployIds.add(one.deployId);
    } else left.push({ instanceId: one.instanceId, deployId: one.deployId, why });
  }
  return { instances, left, deployIds: [...deployIds].sort() };
}

/** Locks the deployments in the order of their ids, as every transaction does. */
async function lockDeployments(trx: Trx, ids: ReadonlySet<DeploymentId>) {
  if (ids.size === 0) return new Map<DeploymentId, never>();
  const rows = await trx
    .selectFrom("deployment")
    .selectAll()
    .where("deployId", "in", [...ids])
    .where("deletedAt", "is", null)
    .orderBy("deployId")
    .forUpdate()
    .execute();
  return new Map(rows.map((row) => [row.deployId, row]));
}
type LockedDeployments = Awaited<ReturnType<typeof lockDeployments>>;

const over = new Set(["stopped", "failed", "deleted"]);

/** Returns why the instance was not adopted; undefined: it was. */
async function adopt(
  trx: Trx,
  { hostId: host, inventory }: Host,
  one: UnknownInstance,
  { deployment, grantOf }: { readonly deployment: ReturnType<LockedDeployments["get"]>; readonly grantOf: GrantOf },
): Promise<string | undefined> {
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
  const claims = await trx
    .selectFrom("gpuClaim")
    .selectAll()
    .where("hostId", "=", host)
    .where("gpuUuid", "in", [...one.gpuUuids, ...parts.map(({ uuid }) => uuid), ...wholes, ""])
    .execute();
  const own = grantOf(
    {
      gpuUuids: one.gpuUuids,
      engine: deployment.engine,
      memoryBytes: Number(deployment.memoryBytes),
      sleeps: deployment.sleepAfter > 0,
      isJoining: claims.length > 0,
    },
    inventory,
  );
  // Instances that sleep use a GPU in turn; any other claim is exclusive.
  const taken = claims.find(({ gpuUuid, accountId, memoryBytes, claimedBytes }) => {
    const claim = own.gpus.find(({ uuid }) => uuid === gpuUuid);
    const fits = claim !== undefined && claimedBytes + BigInt(claim.claimBytes) <= memoryBytes;
    return own.claimant === undefined || accountId !== own.claimant || !fits;
  });
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
      grantedBytes: BigInt(own.grantBytes),
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
  const accountId = own.claimant ?? deployment.accountId;
  for (const { uuid: gpuUuid, memoryBytes, claimBytes } of own.gpus) {
    const claimedBytes = BigInt(claimBytes);
    await trx
      .insertInto("gpuClaim")
      .values({ hostId: host, gpuUuid, accountId, memoryBytes: BigInt(memoryBytes), claimedBytes })
      .onConflict((at) =>
        at.constraint("gpu_claim_exclusive").doUpdateSet({
          claimedBytes: (eb) => eb("gpuClaim.claimedBytes", "+", claimedBytes),
        }),
      )
      .execute();
    await trx
      .insertInto("gpuShare")
      .values({ hostId: host, gpuUuid, accountId, memoryBytes: claimedBytes, instanceId: one.instanceId })
      .execute();
  }
  return undefined;
}
