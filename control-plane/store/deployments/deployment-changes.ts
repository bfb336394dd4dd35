// Guarded changes of one deployment: by its owner (revision), and the controllers' claims (lock token).
import { sql } from "kysely";
import type { AccountId, DeploymentId, HostId } from "../../../proto/ids.ts";
import type { Change, Claimed, DeploymentStatus, GpuCheck, PrefixCacheChange } from "../../deployments/store.ts";
import { lockAccount } from "../accounts/account-rows.ts";
import { auditAct } from "../accounts/audit-rows.ts";
import { readGpuUse } from "../accounts/quota-store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import { affectsRow, findsRow } from "../core/rows.ts";
import type { Db, Trx } from "../core/schema.ts";
import { interval, now } from "../core/time.ts";
import { asDeployment, selectDeployments, selectInstances } from "./deployment-rows.ts";
import { addSpec, columnsOf, memoryColumnsOf, servingAs } from "./deployment-specs.ts";

export async function changeDeployment(
  db: Db,
  id: DeploymentId,
  account: AccountId,
  ifRevision: bigint,
  change: Change,
  check: GpuCheck | undefined,
): Promise<boolean | "has_adapters" | "name_taken"> {
  try {
    return await inTransaction(db, (trx) => changeIn(trx, id, account, ifRevision, change, check));
  } catch (error) {
    // A concurrent change of the specification took the next number.
    const met = uniqueViolation(error);
    if (met === "deployment_name") return "name_taken";
    if (met === "deployment_spec_pkey") return false;
    throw error;
  }
}

/** Action of a person that leads to the status, for the audit log. */
const auditedVerbs: Readonly<Partial<Record<DeploymentStatus, string>>> = {
  stopping: "stop",
  initializing: "start",
  deleted: "delete",
};

/** The same within a caller's transaction. */
export async function changeIn(
  trx: Trx,
  id: DeploymentId,
  account: AccountId,
  ifRevision: bigint,
  change: Change,
  check: GpuCheck | undefined,
): Promise<boolean | "has_adapters" | "name_taken"> {
  // Before the deployment's row, as in every transaction that counts GPUs.
  if (check) await lockAccount(trx, account);
  if (change.endsAdapters && (await hasAdapters(trx, id))) return "has_adapters";
  if (change.status === "initializing" && (await isNameOfAdapter(trx, id, account))) return "name_taken";
  // An update that restores the serving specification reuses its number.
  const serving = change.spec && (await servingAs(trx, id, ifRevision, change.spec));
  const nextSpec = serving ?? (change.spec ? await addSpec(trx, id, change.spec) : 0);
  const moved = await trx
    .updateTable("deployment")
    .set((eb) => ({
      revision: eb("revision", "+", 1n),
      updatedAt: now,
      ...(change.status === undefined ? {} : { status: change.status }),
      ...(change.status === "deleted" ? { deletedAt: now, weightsToken: null } : {}),
      ...(change.failReason === undefined ? {} : { failReason: change.failReason }),
      ...(change.minInstances === undefined ? {} : { minInstances: change.minInstances }),
      ...(change.maxInstances === undefined ? {} : { maxInstances: change.maxInstances }),
      ...(change.inactiveShutdown === undefined ? {} : { inactiveShutdown: change.inactiveShutdown }),
      ...(change.sleepAfterSeconds === undefined ? {} : { sleepAfter: change.sleepAfterSeconds }),
      ...(change.scaling === undefined ? {} : { scaling: JSON.stringify(change.scaling) }),
      ...(change.target === undefined ? {} : { target: change.target }),
      ...(change.standardArgs === undefined ? {} : { standardArgs: JSON.stringify(change.standardArgs) }),
      ...(change.memory === undefined ? {} : memoryColumnsOf(change.memory, eb.ref("spec"))),
      ...(change.spec === undefined ? {} : { ...columnsOf(change.spec), spec: nextSpec, updateError: "" }),
      ...(change.spec?.memory === undefined ? {} : memoryColumnsOf(change.spec.memory, nextSpec)),
      ...(change.isNewGeneration || change.spec ? { generation: eb("generation", "+", 1) } : {}),
    }))
    .where("deployId", "=", id)
    .where("accountId", "=", account)
    .where("revision", "=", ifRevision)
    .returning(["generation", "gpu", "kind", "modelName"])
    .executeTakeFirst();
  // Nothing refers to the new specification: delete it.
  if (!moved) {
    if (change.spec && serving === undefined)
      await trx.deleteFrom("deploymentSpec").where("deployId", "=", id).where("spec", "=", nextSpec).execute();
    return false;
  }
  if (check) check(await readGpuUse(trx, account, moved.gpu, id));
  if (change.isNewGeneration) await regenerate(trx, id, moved.generation);
  if (change.standardArgs || change.sleepAfterSeconds !== undefined) await announceSettings(trx, id);
  const verb = change.isNewGeneration ? "restart" : auditedVerbs[change.status ?? "deploying"];
  // The owner's own stops and starts are events; data ends with a deleted rental.
  const isRentalEnd = change.status === "deleted" && moved.kind !== "model";
  const isOwn = change.act?.by === account && change.act.note === "" && !isRentalEnd;
  if (change.act && verb && !isOwn) {
    const noun = moved.kind === "model" ? "deployment" : moved.kind;
    const before = { name: moved.modelName };
    await auditAct(trx, change.act, { action: `${noun}.${verb}`, subject: id, account, before });
  }
  await announce(trx, "deployment", id);
  return true;
}

/** Locks the base's row, so that a concurrent adapter waits for this write and sees its result. */
async function hasAdapters(trx: Trx, base: DeploymentId): Promise<boolean> {
  await trx.selectFrom("deployment").select("deployId").where("deployId", "=", base).forNoKeyUpdate().execute();
  return trx
    .selectFrom("adapter")
    .select("adapterId")
    .where("baseDeployId", "=", base)
    .where("status", "not in", ["deleted", "failed"])
    .limit(1)
    .$call(findsRow);
}

/** Call under the account's lock: its deployments and adapters share one namespace. */
export async function isAdapterName(trx: Trx, account: AccountId, name: string): Promise<boolean> {
  return trx
    .selectFrom("adapter")
    .select("adapterId")
    .where("accountId", "=", account)
    .where("name", "=", name)
    .where("status", "not in", ["deleted", "failed"])
    .$call(findsRow);
}

/** A failed deployment releases its name, so an adapter may have taken it. */
async function isNameOfAdapter(trx: Trx, id: DeploymentId, account: AccountId): Promise<boolean> {
  const found = await trx
    .selectFrom("deployment")
    .select(["kind", "modelName"])
    .where("deployId", "=", id)
    .executeTakeFirst();
  return found?.kind === "model" && (await isAdapterName(trx, account, found.modelName));
}

/** Moves every live instance to the new generation. Locks hosts before instances, as all writers do. */
async function regenerate(trx: Trx, id: DeploymentId, generation: number): Promise<void> {
  const hosts = await bumpHostsOf(trx, id);
  await trx
    .updateTable("instance")
    .set({ generation, updatedAt: now })
    .where("deployId", "=", id)
    .where("tombstonedAt", "is", null)
    .execute();
  await announce(trx, "host", ...hosts);
}

/** Sends changed settings to the hosts of running instances, without restarting engines. */
async function announceSettings(trx: Trx, id: DeploymentId): Promise<void> {
  await announce(trx, "host", ...(await bumpHostsOf(trx, id)));
}

/** Sets whether accounts may reuse each other's evaluated prompts. */
export function sharePrefixCache(db: Db, { id, isShared, act }: PrefixCacheChange): Promise<boolean> {
  return inTransaction(db, async (trx) => {
    const before = await trx
      .selectFrom("deployment")
      .select(["accountId", "sharePrefixCache"])
      .where("deployId", "=", id)
      .where("status", "<>", "deleted")
      .forUpdate()
      .executeTakeFirst();
    if (!before) return false;
    await trx.updateTable("deployment").set({ sharePrefixCache: isShared }).where("deployId", "=", id).execute();
    await auditAct(trx, act, {
      action: "deployment.share_prefix_cache",
      subject: id,
      account: before.accountId,
      before: { shared: before.sharePrefixCache },
      after: { shared: isShared },
    });
    await announceSettings(trx, id);
    return true;
  });
}

/** Increments the generations of the hosts with live instances of the deployment, and returns them. */
async function bumpHostsOf(trx: Trx, id: DeploymentId): Promise<readonly HostId[]> {
  const live = trx.selectFrom("instance").where("deployId", "=", id).where("tombstonedAt", "is", null);
  const hosts = await live.select("hostId").distinct().orderBy("hostId").execute();
  for (const { hostId } of hosts) await bumpHost(trx, hostId);
  return hosts.map(({ hostId }) => hostId);
}

/** Call it when the host's desired set changed. False when there is no such host. */
export const bumpHost = (trx: Trx, hostId: HostId): Promise<boolean> =>
  trx
    .updateTable("host")
    .set((eb) => ({ generation: eb("generation", "+", 1n) }))
    .where("hostId", "=", hostId)
    .$call(affectsRow);

export async function claimDeployments(
  db: Db,
  ids: readonly DeploymentId[],
  owner: string,
  ttlMs: number,
): Promise<readonly Claimed[]> {
  const claimed = await db
    .updateTable("deployment")
    .set((eb) => ({
      lockOwner: owner,
      lockToken: eb("lockToken", "+", 1n),
      lockExpiresAt: sql<Date>`now() + ${interval(ttlMs)}`,
    }))
    .where("deployId", "in", (eb) =>
      eb
        .selectFrom("deployment as free")
        .select("free.deployId")
        .where(sql<boolean>`free.deploy_id = any(${ids}::text[])`)
        .where((free) => free.or([free("lockExpiresAt", "is", null), free("lockExpiresAt", "<", now)]))
        .orderBy("free.deployId")
        .forNoKeyUpdate()
        .skipLocked(),
    )
    .returning(["deployId", "lockToken"])
    .execute();
  if (claimed.length === 0) return [];
  const tokens = new Map(claimed.map((row) => [row.deployId, row.lockToken]));
  const own = sql<boolean>`deploy_id = any(${[...tokens.keys()]}::text[])`;
  const rows = new Map((await selectDeployments(db).where(own).execute()).map((row) => [row.deployId, row]));
  const instances = Map.groupBy(await selectInstances(db).where(own).execute(), (one) => one.deployId);
  return ids.flatMap((id) => {
    const [row, lockToken] = [rows.get(id), tokens.get(id)];
    if (!row || lockToken === undefined) return [];
    return [{ deployment: asDeployment(row), instances: instances.get(id) ?? [], lockToken }];
  });
}

export async function releaseClaims(db: Db, claimed: readonly Claimed[]): Promise<void> {
  if (claimed.length === 0) return;
  const [ids, tokens] = [claimed.map((one) => one.deployment.id), claimed.map((one) => String(one.lockToken))];
  await db
    .updateTable("deployment")
    .set({ lockOwner: null, lockExpiresAt: null })
    .where(sql<boolean>`(deploy_id, lock_token) in (select * from unnest(${ids}::text[], ${tokens}::bigint[]))`)
    .execute();
}
