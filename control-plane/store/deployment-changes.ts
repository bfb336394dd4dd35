// Guarded changes of one deployment: by its owner (revision) and the controllers' claims (lock token).
import { type Kysely, sql, type Transaction } from "kysely";
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import type { Change, Claimed, GpuCheck } from "../deployments/store.ts";
import { writeAudit } from "./audit-rows.ts";
import { announce } from "./change-feed.ts";
import { inTransaction, uniqueViolation } from "./database.ts";
import { asDeployment, asInstance, selectDeployments } from "./deployment-rows.ts";
import { addSpec, columnsOf, memoryColumnsOf, servingAs } from "./deployment-specs.ts";
import { lockAccount, readGpuUse } from "./limit-rows.ts";
import type { Database } from "./schema.ts";

export async function changeDeployment(
  db: Kysely<Database>,
  id: DeploymentId,
  account: AccountId,
  ifRevision: bigint,
  change: Change,
  check: GpuCheck | undefined,
): Promise<boolean | "has_adapters"> {
  try {
    return await inTransaction(db, (trx) => changeIn(trx, id, account, ifRevision, change, check));
  } catch (error) {
    // Somebody else's change of what is to run took the next number meanwhile.
    const met = uniqueViolation(error);
    if (met === "deployment_name" || met === "deployment_spec_pkey") return false;
    throw error;
  }
}

/** The same inside a larger write. */
export async function changeIn(
  trx: Transaction<Database>,
  id: DeploymentId,
  account: AccountId,
  ifRevision: bigint,
  change: Change,
  check: GpuCheck | undefined,
): Promise<boolean | "has_adapters"> {
  // Before the deployment's row: the order of everybody who counts GPUs.
  if (check) await lockAccount(trx, account);
  if (change.endsAdapters && (await hasAdapters(trx, id))) return "has_adapters";
  // An update that its owner takes back leaves what serves as it is.
  const serving = change.spec && (await servingAs(trx, id, ifRevision, change.spec));
  const nextSpec = serving ?? (change.spec ? await addSpec(trx, id, change.spec) : 0);
  const moved = await trx
    .updateTable("deployment")
    .set((eb) => ({
      revision: eb("revision", "+", 1n),
      updated_at: sql<Date>`now()`,
      ...(change.status === undefined ? {} : { status: change.status }),
      ...(change.status === "deleted" ? { deleted_at: sql<Date>`now()`, weights_token: null } : {}),
      ...(change.failReason === undefined ? {} : { fail_reason: change.failReason }),
      ...(change.minInstances === undefined ? {} : { min_instances: change.minInstances }),
      ...(change.maxInstances === undefined ? {} : { max_instances: change.maxInstances }),
      ...(change.inactiveShutdown === undefined ? {} : { inactive_shutdown: change.inactiveShutdown }),
      ...(change.target === undefined ? {} : { target: change.target }),
      ...(change.standardArgs === undefined ? {} : { standard_args: JSON.stringify(change.standardArgs) }),
      ...(change.memory === undefined ? {} : memoryColumnsOf(change.memory, eb.ref("spec"))),
      ...(change.spec === undefined ? {} : { ...columnsOf(change.spec), spec: nextSpec, update_error: "" }),
      ...(change.spec?.memory === undefined ? {} : memoryColumnsOf(change.spec.memory, nextSpec)),
      ...(change.isNewGeneration || change.spec ? { generation: eb("generation", "+", 1) } : {}),
    }))
    .where("deploy_id", "=", id)
    .where("account_id", "=", account)
    .where("revision", "=", ifRevision)
    .returning(["generation", "gpu", "kind", "model_name"])
    .executeTakeFirst();
  // A number that nothing points at would be harmless, but the write is to leave nothing behind.
  if (!moved) {
    if (change.spec && serving === undefined)
      await trx.deleteFrom("deployment_spec").where("deploy_id", "=", id).where("spec", "=", nextSpec).execute();
    return false;
  }
  if (check) check(await readGpuUse(trx, account, moved.gpu, id));
  if (change.isNewGeneration) await regenerate(trx, id, moved.generation);
  if (change.standardArgs) await retell(trx, id);
  // Its data goes with it: who ended it must be known afterwards.
  if (change.status === "deleted" && moved.kind !== "model") {
    const before = { name: moved.model_name };
    const { ip = "" } = change;
    await writeAudit(trx, { actor: account, action: `${moved.kind}.delete`, subject: id, account, ip, before });
  }
  await announce(trx, "deployment", id);
  return true;
}

/** Holds off adapters that are made meanwhile: whoever makes one reads the base's row once this write is through. */
async function hasAdapters(trx: Transaction<Database>, base: DeploymentId): Promise<boolean> {
  await trx.selectFrom("deployment").select("deploy_id").where("deploy_id", "=", base).forNoKeyUpdate().execute();
  const found = await trx
    .selectFrom("adapter")
    .select("adapter_id")
    .where("base_deploy_id", "=", base)
    .where("status", "not in", ["deleted", "failed"])
    .limit(1)
    .executeTakeFirst();
  return found !== undefined;
}

/** Every instance that stays is to run the new generation. Hosts are locked first, in the order all writers use. */
async function regenerate(trx: Transaction<Database>, id: DeploymentId, generation: number): Promise<void> {
  const hosts = await bumpHostsOf(trx, id);
  await trx
    .updateTable("instance")
    .set({ generation, updated_at: sql<Date>`now()` })
    .where("deploy_id", "=", id)
    .where("tombstoned_at", "is", null)
    .execute();
  for (const host of hosts) await announce(trx, "host", host);
}

/** The gates of what runs follow; the engines behind them stay as they are. */
async function retell(trx: Transaction<Database>, id: DeploymentId): Promise<void> {
  for (const host of await bumpHostsOf(trx, id)) await announce(trx, "host", host);
}

/** Those with live instances of the deployment. */
async function bumpHostsOf(trx: Transaction<Database>, id: DeploymentId): Promise<readonly string[]> {
  const live = trx.selectFrom("instance").where("deploy_id", "=", id).where("tombstoned_at", "is", null);
  const hosts = await live.select("host_id").distinct().orderBy("host_id").execute();
  for (const { host_id } of hosts) await bumpHost(trx, host_id);
  return hosts.map(({ host_id }) => host_id);
}

/** Its desired set changed. */
export async function bumpHost(trx: Transaction<Database>, hostId: string): Promise<void> {
  await trx
    .updateTable("host")
    .set((eb) => ({ generation: eb("generation", "+", 1n) }))
    .where("host_id", "=", hostId)
    .execute();
}

export async function claimDeployment(
  db: Kysely<Database>,
  id: DeploymentId,
  owner: string,
  ttlMs: number,
): Promise<Claimed | undefined> {
  const claimed = await db
    .updateTable("deployment")
    .set((eb) => ({
      lock_owner: owner,
      lock_token: eb("lock_token", "+", 1n),
      lock_expires_at: sql<Date>`now() + make_interval(secs => ${ttlMs / 1000})`,
    }))
    .where("deploy_id", "=", (eb) =>
      eb
        .selectFrom("deployment as free")
        .select("free.deploy_id")
        .where("free.deploy_id", "=", id)
        .where((free) => free.or([free("lock_expires_at", "is", null), free("lock_expires_at", "<", sql<Date>`now()`)]))
        .forUpdate()
        .skipLocked(),
    )
    .returning("lock_token")
    .executeTakeFirst();
  if (!claimed) return undefined;
  const row = await selectDeployments(db).where("d.deploy_id", "=", id).executeTakeFirstOrThrow();
  const instances = await db.selectFrom("instance").selectAll().where("deploy_id", "=", id).execute();
  return { deployment: asDeployment(row), instances: instances.map(asInstance), lockToken: claimed.lock_token };
}

export async function releaseClaim(db: Kysely<Database>, claimed: Claimed): Promise<void> {
  await db
    .updateTable("deployment")
    .set({ lock_owner: null, lock_expires_at: null })
    .where("deploy_id", "=", claimed.deployment.id)
    .where("lock_token", "=", claimed.lockToken)
    .execute();
}
