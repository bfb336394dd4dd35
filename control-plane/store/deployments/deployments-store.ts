import { sql } from "kysely";
import type { AccountId, DeploymentId, HostId, InstanceId } from "../../../proto/ids.ts";
import { isServing } from "../../../proto/instance-phase.ts";
import type {
  ColdStart,
  DeploymentStore,
  DesiredRows,
  GpuCheck,
  InsertRefusal,
  NewDeployment,
  Observation,
  Present,
} from "../../deployments/store.ts";
import { lockAccount } from "../accounts/account-rows.ts";
import { auditAct } from "../accounts/audit-rows.ts";
import { readGpuUse } from "../accounts/quota-store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import { affectsRow, findsRow } from "../core/rows.ts";
import type { Db, Trx } from "../core/schema.ts";
import { now } from "../core/time.ts";
import { nodeWeightsOf } from "../fleet/node-weights-store.ts";
import { endedOnes, writeUnknown } from "../fleet/unknown-instances.ts";
import { adaptersOf, observeAdapters } from "./adapter-rows.ts";
import { agentRows } from "./agent-rows.ts";
import {
  bumpHost,
  changeDeployment,
  claimDeployments,
  isAdapterName,
  releaseClaims,
  sharePrefixCache,
} from "./deployment-changes.ts";
import { commitVerdicts } from "./deployment-commit.ts";
import { asDeployment, isListed, isSleepingRow, selectDeployments, selectInstances } from "./deployment-rows.ts";
import { columnsOf, insertSpec, memoryColumnsOf, readSpecs, readVersions } from "./deployment-specs.ts";

export function createDeploymentStore(db: Db): DeploymentStore {
  return asked<DeploymentStore>({
    async insert(next, check) {
      const refusal = await insertUnderLimits(db, next, check, false);
      if (refusal) return refusal;
      return (await this.get(next.id, next.account)) ?? "account_gone";
    },

    refusalOf: (next, check) => insertUnderLimits(db, next, check, true),

    async get(id, account) {
      const row = await selectDeployments(db)
        .where("d.deployId", "=", id)
        .where("d.accountId", "=", account)
        .executeTakeFirst();
      return row && asDeployment(row);
    },

    async list(account, kind, statuses) {
      const rows = await selectDeployments(db)
        .where(isListed(account, kind))
        .$if(statuses !== undefined, (query) => query.where("d.status", "in", [...(statuses ?? [])]))
        .orderBy("d.createdAt", "desc")
        .execute();
      return rows.map(asDeployment);
    },

    async weightsToken(id, account) {
      const row = await db
        .selectFrom("deployment")
        .select("weightsToken")
        .where("deployId", "=", id)
        .where("accountId", "=", account)
        .executeTakeFirst();
      return row?.weightsToken ?? null;
    },

    instances: (id) =>
      selectInstances(db)
        .$if(id !== undefined, (query) => query.where("deployId", "=", id as DeploymentId))
        .where("tombstonedAt", "is", null)
        .orderBy("createdAt")
        .execute(),

    async active(ids) {
      const rows = await selectDeployments(db)
        .$if(ids !== undefined, (query) => query.where("d.deployId", "in", [...(ids ?? [])]))
        // Uses indexes: there are many ended deployments, which must not be read every time.
        .where(sql<boolean>`d.deploy_id in (
          select deploy_id from deployment where status not in ('stopped', 'failed', 'deleted')
          union select deploy_id from instance where tombstoned_at is null)`)
        .orderBy("d.createdAt")
        .execute();
      if (rows.length === 0) return [];
      const instances = await selectInstances(db)
        .where(
          "deployId",
          "in",
          rows.map((row) => row.deployId),
        )
        .orderBy("instanceId")
        .execute();
      const byDeployment = Map.groupBy(instances, (instance) => instance.deployId);
      return rows.map((row) => ({
        deployment: asDeployment(row),
        instances: byDeployment.get(row.deployId) ?? [],
        claimedUntilMs: row.lockExpiresAt?.getTime() ?? 0,
      }));
    },

    coldStart: (id, account) => coldStart(db, id, account),
    wake: (id, account) => wakeDeployment(db, id, account),
    noteUse: (ids) => noteUse(db, ids),
    claim: (ids, owner, ttlMs) => claimDeployments(db, ids, owner, ttlMs),
    release: (claimed) => releaseClaims(db, claimed),
    commit: (decisions) => commitVerdicts(db, decisions),
    change: (id, account, ifRevision, change, check) => changeDeployment(db, id, account, ifRevision, change, check),
    observe: (...report) => writeObservations(db, ...report),
    versions: (id, account) => readVersions(db, id, account),
    sharePrefixCache: (change) => sharePrefixCache(db, change),
    desired: (host) => desiredRows(db, host),
  });
}

/** Interval of recording a waiting caller; readers allow for more. */
const awaitedEverySeconds = 5;

/**
 * Sends one sleeping instance the time of a waiting caller, which wakes it. Sends it again at once if the instance has gone to
 * sleep since, and to the next one after five seconds. Returns false if none sleeps, or the last time is recent enough.
 */
async function wakeSleeper(db: Db, id: DeploymentId): Promise<boolean> {
  const isDue = sql<boolean>`exists (select from instance i
    where i.deploy_id = d.deploy_id and i.tombstoned_at is null and ${isSleepingRow}
      and (coalesce(d.awaited_at < now() - make_interval(secs => ${awaitedEverySeconds}), true)
        or (i.phase = 'asleep' and d.awaited_at < i.updated_at)))`;
  // Most calls find nothing to do: they take no lock.
  if (
    !(await db.selectFrom("deployment as d").select("deployId").where("deployId", "=", id).where(isDue).$call(findsRow))
  )
    return false;
  return inTransaction(db, async (trx) => {
    // Locks the deployment, then the host, then the order of announcements, as controllers do.
    const isFirst = await trx
      .updateTable("deployment as d")
      .set({ awaitedAt: now })
      .where("d.deployId", "=", id)
      .where(isDue)
      .$call(affectsRow);
    if (!isFirst) return false;
    const sleeper = await trx
      .selectFrom("instance as i")
      .select(["instanceId", "hostId"])
      .where("deployId", "=", id)
      .where("tombstonedAt", "is", null)
      .where(isSleepingRow)
      .orderBy(
        sql`coalesce(awaited_at > now() - make_interval(secs => ${awaitedEverySeconds}), false) desc,
          awaited_at nulls first, instance_id`,
      )
      .executeTakeFirst();
    if (!sleeper) return false;
    await bumpHost(trx, sleeper.hostId);
    await trx.updateTable("instance").set({ awaitedAt: now }).where("instanceId", "=", sleeper.instanceId).execute();
    await announce(trx, "host", sleeper.hostId);
    return true;
  });
}

/** Guarded writes, which concurrent callers do not repeat: one requests an instance, the other records a waiting caller. */
async function wakeDeployment(db: Db, id: DeploymentId, account: AccountId): Promise<void> {
  const isAsleep = await db
    .selectFrom("deployment")
    .select("deployId")
    .where("deployId", "=", id)
    .where("accountId", "=", account)
    .where("target", "<", 1)
    .where("minInstances", "<", 1)
    .executeTakeFirst();
  if (isAsleep) await wake(db, id);
  if (await wakeSleeper(db, id)) return;
  await db
    .updateTable("deployment")
    .set({ awaitedAt: now })
    .where("deployId", "=", id)
    .where("accountId", "=", account)
    .where(sql<boolean>`coalesce(awaited_at < now() - make_interval(secs => ${awaitedEverySeconds}), true)`)
    .execute();
}

/** Locks rows in one order, so that replicas do not deadlock, and skips locked ones. */
async function noteUse(db: Db, ids: readonly DeploymentId[]): Promise<void> {
  await db
    .updateTable("deployment")
    .set({ usedAt: now })
    .where("deployId", "in", (rows) =>
      rows
        .selectFrom("deployment")
        .select("deployId")
        .where(sql<boolean>`deploy_id = any(${[...ids]}::text[])`)
        .orderBy("deployId")
        .forUpdate()
        .skipLocked(),
    )
    .execute();
}

function wake(db: Db, id: DeploymentId): Promise<void> {
  return inTransaction(db, async (trx) => {
    const { numUpdatedRows } = await trx
      .updateTable("deployment")
      .set((eb) => ({ target: 1, awaitedAt: now, revision: eb("revision", "+", 1n) }))
      .where("deployId", "=", id)
      .where("target", "<", 1)
      .where("minInstances", "<", 1)
      .where("status", "in", ["deployed", "updating"])
      .executeTakeFirst();
    if (numUpdatedRows > 0n) await announce(trx, "deployment", id);
  });
}

async function coldStart(db: Db, id: DeploymentId, account: AccountId): Promise<ColdStart | undefined> {
  const row = await selectDeployments(db)
    .where("d.deployId", "=", id)
    .where("d.accountId", "=", account)
    .select(
      sql<number>`coalesce(extract(epoch from now() - coalesce(
        (select min(i.created_at) from instance i
          where i.deploy_id = d.deploy_id and i.tombstoned_at is null and i.ready_at is null),
        d.awaited_at)) * 1000, 0)::float8`.as("elapsedMs"),
    )
    .executeTakeFirst();
  if (!row) return undefined;
  const phases = await db
    .selectFrom("instance")
    .select("phase")
    .where("deployId", "=", id)
    .where("tombstonedAt", "is", null)
    .execute();
  return {
    deployment: asDeployment(row),
    phases: phases.map(({ phase }) => phase),
    elapsedMs: Math.max(0, row.elapsedMs),
    startMs: row.startMs,
  };
}

/** Locks the host's row first, which also fences an older session. */
async function writeObservations(
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
    for (const reported of observations) {
      const row = known.get(reported.instanceId);
      if (!row) continue;
      const seen = { ...reported, contextLength: contextLengthOf(reported, row.contextLength) };
      await write(trx, seen);
      if (seen.phase === "ready" && row.readyAt === null) firstReady.push(seen.instanceId);
      const isNews =
        row.phase !== seen.phase ||
        row.observedGeneration !== seen.generation ||
        row.failCode !== seen.failCode ||
        row.contextLength !== seen.contextLength ||
        row.formats.join() !== seen.formats.join() ||
        row.serverBatchSize !== seen.serverBatchSize;
      const isOther = await observeAdapters(trx, row, seen.adapters);
      if (isNews || isOther) changed.add(row.deployId);
    }
    const isForgotten = await forget(trx, host, removed, changed);
    const strangers = present.filter((one) => !known.has(one.instanceId));
    const isNews = await writeUnknown(trx, host, strangers, removed, current.unknownInstances);
    await announce(trx, "deployment", ...[...changed].sort());
    if (isForgotten || isNews) await announce(trx, "host", host);
    return { isFenced: false, unknown: strangers.map((one) => one.instanceId) };
  });
  // Not in the transaction: controllers lock deployments before hosts, and this is only a hint for waiting callers.
  if (firstReady.length > 0) await noteStarts(db, firstReady);
  return written;
}

/** An instance whose server is stopped while it sleeps reports no length: it has that of before. */
const contextLengthOf = ({ phase, contextLength }: Observation, before: number): number =>
  contextLength === 0 && phase !== "ready" && isServing(phase) ? before : contextLength;

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
      formats: [...seen.formats],
      serverBatchSize: seen.serverBatchSize,
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

/** Reads the desired set of one host in one snapshot, so that its generation matches its rows. */
function desiredRows(db: Db, hostId: HostId): Promise<DesiredRows | undefined> {
  return db
    .transaction()
    .setIsolationLevel("repeatable read")
    .setAccessMode("read only")
    .execute(async (trx) => {
      const host = await trx
        .selectFrom("host")
        .select(["nodeEpoch", "generation"])
        .where("hostId", "=", hostId)
        .executeTakeFirst();
      if (!host) return undefined;
      const rows = await selectInstances(trx).where("hostId", "=", hostId).orderBy("instanceId").execute();
      const drain = await trx
        .selectFrom("hostOperation")
        .select("deadlineAt")
        .where("hostId", "=", hostId)
        .where("kind", "=", "drain")
        .executeTakeFirst();
      const [live, dead] = [rows.filter((row) => !row.isTombstoned), rows.filter((row) => row.isTombstoned)];
      const continuing = new Set(drain ? await continuingOf(trx, dead) : []);
      const seenAgain = await endedOnes(trx, hostId).orderBy("instanceId").execute();
      const ids = [...new Set(live.map((row) => row.deployId))];
      const deployments = ids.length > 0 ? await selectDeployments(trx).where("d.deployId", "in", ids).execute() : [];
      const specs = await readSpecs(trx, live);
      const agents = await agentRows(trx, ids);
      const adapters = await adaptersOf(trx, ids);
      const byId = new Map(deployments.map((row) => [row.deployId, row]));
      return {
        nodeEpoch: host.nodeEpoch,
        prefetch: await nodeWeightsOf(trx, hostId),
        generation: host.generation,
        emptiedByMs: drain?.deadlineAt?.getTime() ?? 0,
        tombstones: [...dead.map((row) => row.id), ...seenAgain.map((row) => row.instanceId)],
        moved: dead.filter((row) => continuing.has(row.deployId)).map((row) => row.id),
        instances: live.flatMap((instance) => {
          const deployment = byId.get(instance.deployId);
          if (!deployment) return [];
          const known = asDeployment(deployment);
          // During a rollout the instances of one deployment run different specifications.
          const record = { ...known, ...specs.get(`${instance.deployId}/${instance.spec}`) };
          return [
            {
              instance,
              deployment: record,
              standardArgs: known.standardArgs ?? {},
              weights: record.weights,
              weightsToken: deployment.weightsToken,
              agentInstance: agents.get(record.id),
              adapters: adapters.get(record.id) ?? [],
            },
          ];
        }),
      };
    });
}

const continuingStatuses = ["initializing", "downloading", "deploying", "deployed", "updating"] as const;

/** Deployments of these instances that continue elsewhere. */
async function continuingOf(
  trx: Db,
  instances: readonly { readonly deployId: DeploymentId }[],
): Promise<DeploymentId[]> {
  if (instances.length === 0) return [];
  const rows = await trx
    .selectFrom("deployment")
    .select("deployId")
    .where("deployId", "in", [...new Set(instances.map((row) => row.deployId))])
    .where("status", "in", continuingStatuses)
    .execute();
  return rows.map((row) => row.deployId);
}

/** Rolls back the transaction of a dry run. */
class DryRun extends Error {}

/** Undefined: it was written, or would be without `isDryRun`. */
async function insertUnderLimits(
  db: Db,
  next: NewDeployment,
  check: GpuCheck,
  isDryRun: boolean,
): Promise<InsertRefusal | undefined> {
  try {
    return await inTransaction(db, async (trx) => {
      if (!(await lockAccount(trx, next.account))) return "account_gone";
      if (next.kind === "model" && (await isAdapterName(trx, next.account, next.modelName))) return "name_taken";
      check(await readGpuUse(trx, next.account, next.gpu, undefined));
      await insertDeployment(trx, next);
      if (isDryRun) throw new DryRun();
      await announce(trx, "deployment", next.id);
      return undefined;
    });
  } catch (error) {
    if (error instanceof DryRun) return undefined;
    if (uniqueViolation(error) === "deployment_name") return "name_taken";
    throw error;
  }
}

/** Throws a unique violation of `deployment_name`. */
export async function insertDeployment(trx: Trx, next: NewDeployment): Promise<void> {
  const memory = { memoryBytes: next.memoryBytes, isMemoryBound: next.isMemoryBound ?? false };
  await trx
    .insertInto("deployment")
    .values({
      deployId: next.id,
      accountId: next.account,
      kind: next.kind,
      modelName: next.modelName,
      version: next.version,
      task: next.task,
      type: next.type,
      engine: next.engine,
      status: "initializing",
      gpu: next.gpu,
      numGpus: next.numGpus,
      maxBatchSize: next.maxBatchSize,
      takesServerBatch: next.takesServerBatch ?? false,
      minInstances: next.minInstances,
      maxInstances: next.maxInstances,
      weights: JSON.stringify(next.weights),
      weightsToken: next.weightsToken,
      container: next.container ? JSON.stringify(next.container) : null,
      ...columnsOf(next),
      image: next.image ?? "",
      externalUrl: next.externalUrl,
      ...memoryColumnsOf(memory, 1),
      priceSubject: next.priceSubject ?? null,
      pendingReasons: "[]",
      target: Math.max(1, next.minInstances),
      inactiveShutdown: next.inactiveShutdown ?? null,
      sleepAfter: next.sleepAfterSeconds ?? 0,
      scaling: JSON.stringify(next.scaling ?? {}),
    })
    .execute();
  await insertSpec(trx, next.id, 1, { ...next, memory });
  // Rented machines cost money as long as they exist, so the audit log records who created one.
  if (next.kind === "model") return;
  const { account, act = { by: account, ip: "" } } = next;
  const after = { name: next.modelName, gpu: next.gpu, num_gpus: next.numGpus, image: next.container?.image ?? null };
  await auditAct(trx, act, { action: `${next.kind}.create`, subject: next.id, account, after });
}
