import { sql } from "kysely";
import { noAdapters } from "../../../proto/engine-args.ts";
import type { AccountId, AdapterId, DeploymentId } from "../../../proto/ids.ts";
import type { Adapter, AdapterStanding, AdapterStore } from "../../deployments/store.ts";
import { lockAccount } from "../accounts/account-rows.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import { affectsRow, findsRow, rowCount } from "../core/rows.ts";
import type { Db, Trx } from "../core/schema.ts";
import { epochMs, now } from "../core/time.ts";
import { announceAdapters, ended, lockHostsOf } from "./adapter-rows.ts";

/** Interval of recording use. */
const usedEverySeconds = 30;
/** An adapter used within this is not evicted. */
const settledSeconds = 20;
/** Time in which an instance unloads one adapter and loads another. */
const evictionSeconds = 30;

export function createAdapterStore(db: Db): AdapterStore {
  const own = (account: AccountId) => selectAdapters(db).where("a.accountId", "=", account);

  const store: AdapterStore = {
    async insert(next, maxAdapters, capacity) {
      try {
        const refusal = await inTransaction(db, async (trx) => {
          const { id, account, ...rest } = next;
          if (!(await lockAccount(trx, account))) return "account_gone";
          if (await isDeploymentName(trx, account, next.name)) return "name_taken";
          if ((await countLive(trx, account)) >= maxAdapters) return "too_many";
          if (await supportsNone(trx, next.baseDeployId)) return "base_takes_none";
          const hosts = await lockHostsOf(trx, [next.baseDeployId]);
          await trx
            .insertInto("adapter")
            .values({
              adapterId: id,
              accountId: account,
              ...rest,
              // Loaded at once while there is capacity, so that the first caller does not wait for it.
              isWanted: sql<boolean>`(select count(*) < ${capacity} from adapter o
                where o.base_deploy_id = ${next.baseDeployId} and o.is_wanted and o.status not in ('deleted', 'failed'))`,
            })
            .execute();
          await announceAdapters(trx, [next.baseDeployId], hosts);
          return undefined;
        });
        if (refusal) return refusal;
      } catch (error) {
        if (uniqueViolation(error) === "adapter_name") return "name_taken";
        throw error;
      }
      return (await store.get(next.id, next.account)) ?? "account_gone";
    },

    find: (name, account) =>
      own(account)
        .where("a.name", "=", name)
        .where("a.status", "!=", "deleted")
        // A live one before failed ones.
        .orderBy(sql`a.status = 'failed'`)
        .orderBy("a.createdAt", "desc")
        .executeTakeFirst(),

    get: (id, account) => own(account).where("a.adapterId", "=", id).executeTakeFirst(),

    list: (account, baseModel) =>
      own(account)
        .where(sql<boolean>`a.status <> 'deleted'`)
        .$if(baseModel !== undefined, (query) => query.where("a.baseModel", "=", baseModel as string))
        .orderBy("a.createdAt", "desc")
        .execute(),

    change: (id, account, change) =>
      db
        .updateTable("adapter")
        .set({ ...change, updatedAt: now })
        .where("adapterId", "=", id)
        .where("accountId", "=", account)
        .where("status", "!=", "deleted")
        .$call(affectsRow),

    remove: (id, account) =>
      changing(db, id, account, async (trx) => {
        const { numUpdatedRows } = await trx
          .updateTable("adapter")
          .set({ status: "deleted", isWanted: false, token: null, url: null, updatedAt: now })
          .where("adapterId", "=", id)
          .where("status", "!=", "deleted")
          .executeTakeFirst();
        return { isNews: true, result: numUpdatedRows > 0n };
      }).then((isRemoved) => isRemoved ?? false),

    async used(id, account) {
      await db
        .updateTable("adapter")
        .set({ usedAt: now })
        .where("adapterId", "=", id)
        .where("accountId", "=", account)
        .where(sql<boolean>`used_at < now() - make_interval(secs => ${usedEverySeconds})`)
        .execute();
    },

    want: (id, account, maxHeld) => want(db, id, account, maxHeld),

    async maintain(idleMs) {
      const rows = await dueOnes(db, idleMs).execute();
      for (const row of rows) await maintainOne(db, row);
      return rows.length;
    },
  };
  return asked(store);
}

/** Runs a write that hosts must learn of. Locks hosts before the adapter's row; undefined when the adapter does not exist. */
async function changing<T>(
  db: Db,
  id: AdapterId,
  account: AccountId,
  write: (trx: Trx, base: DeploymentId) => Promise<{ readonly isNews: boolean; readonly result: T }>,
): Promise<T | undefined> {
  const row = await db
    .selectFrom("adapter")
    .select("baseDeployId")
    .where("adapterId", "=", id)
    .where("accountId", "=", account)
    .executeTakeFirst();
  if (!row) return undefined;
  return inTransaction(db, async (trx) => {
    const hosts = await lockHostsOf(trx, [row.baseDeployId]);
    const { isNews, result } = await write(trx, row.baseDeployId);
    if (isNews) await announceAdapters(trx, [row.baseDeployId], hosts);
    return result;
  });
}

async function want(
  db: Db,
  id: AdapterId,
  account: AccountId,
  maxHeld: (engine: string, task: string) => number,
): Promise<AdapterStanding> {
  const standing = await changing<AdapterStanding>(db, id, account, async (trx, base) => {
    // Serialised per base, also while no instance of it runs.
    const others = await trx
      .selectFrom("adapter")
      .select(["adapterId", "isWanted", "status", "failReason"])
      .select(
        sql<boolean>`coalesce(room_made_at > now() - make_interval(secs => ${evictionSeconds}), false)`.as("hasAsked"),
      )
      .select(sql<boolean>`used_at > now() - make_interval(secs => ${settledSeconds})`.as("isSettled"))
      .where("baseDeployId", "=", base)
      .where((eb) => eb.or([eb("isWanted", "=", true), eb("adapterId", "=", id)]))
      .orderBy("usedAt")
      .orderBy("adapterId")
      .forUpdate()
      .execute();
    const quiet = (result: AdapterStanding) => ({ isNews: false, result });
    const mine = others.find((row) => row.adapterId === id);
    if (!mine || mine.status === "deleted") return quiet("gone");
    if (mine.status === "failed") return quiet("failed");
    const standing = mine.failReason === "" ? "wanted" : "trouble";
    const held = others.filter((row) => row.isWanted && row.status !== "failed" && row.status !== "deleted");
    if (mine.isWanted && mine.failReason.startsWith("adapter_no_room:") && !mine.hasAsked) {
      // The host is out of memory: evict one idle adapter and wait for the next report.
      const [idle] = held.filter((row) => row.adapterId !== id && !row.isSettled);
      if (idle) {
        await setWanted(trx, [idle.adapterId], false);
        await trx
          .updateTable("adapter")
          .set({ roomMadeAt: now, usedAt: now, failReason: "" })
          .where("adapterId", "=", id)
          .execute();
        return { isNews: true, result: "wanted" };
      }
    }
    if (mine.isWanted) {
      await trx.updateTable("adapter").set({ usedAt: now }).where("adapterId", "=", id).execute();
      return quiet(standing);
    }
    const { engine, task } = await trx
      .selectFrom("deployment")
      .select(["engine", "task"])
      .where("deployId", "=", base)
      .executeTakeFirstOrThrow();
    const surplus = held.length + 1 - maxHeld(engine, task);
    const leaving = held.filter((row) => !row.isSettled).slice(0, Math.max(0, surplus));
    if (leaving.length < surplus) return quiet("full");
    await setWanted(
      trx,
      leaving.map((row) => row.adapterId),
      false,
    );
    await trx.updateTable("adapter").set({ isWanted: true, usedAt: now }).where("adapterId", "=", id).execute();
    return { isNews: true, result: standing };
  });
  return standing ?? "gone";
}

async function setWanted(trx: Trx, ids: readonly AdapterId[], isWanted: boolean): Promise<void> {
  if (ids.length === 0) return;
  await trx
    .updateTable("adapter")
    .set({ isWanted })
    .where("adapterId", "in", [...ids])
    .execute();
}

interface DueRow {
  readonly adapterId: AdapterId;
  readonly baseDeployId: DeploymentId;
  readonly why: "idle" | "moved" | "gone" | "failed";
  readonly nextBase: DeploymentId | null;
}

/** Adapters that need a change because of the time or of their base. */
function dueOnes(db: Db, idleMs: number) {
  const isIdle = sql<boolean>`a.is_wanted and a.used_at < now() - make_interval(secs => ${idleMs / 1000})`;
  const isMoved = sql<boolean>`coalesce(p.deploy_id <> a.base_deploy_id, false)`;
  const isGone = sql<boolean>`d.status = 'deleted'`;
  // Reported by one host; the others must not retry it.
  const hasFailed = sql<boolean>`(a.status = 'failed' and a.is_wanted)`;
  return (
    db
      .selectFrom("adapter as a")
      .innerJoin("deployment as d", "d.deployId", "a.baseDeployId")
      .leftJoin("publicModel as p", (join) =>
        join.onRef("p.modelName", "=", "a.baseModel").on("a.isBasePublic", "=", true),
      )
      .select(["a.adapterId", "a.baseDeployId", "p.deployId as nextBase"])
      .select(
        sql<
          DueRow["why"]
        >`case when ${hasFailed} then 'failed' when ${isMoved} then 'moved' when ${isGone} then 'gone' else 'idle' end`.as(
          "why",
        ),
      )
      // Deleted ones are many and must not be read.
      .where(sql<boolean>`a.status <> 'deleted'`)
      .where(
        sql<boolean>`(${hasFailed} or (a.status not in ('failed', 'deleted') and (${isIdle} or ${isMoved} or ${isGone})))`,
      )
      .orderBy("a.adapterId")
      .limit(1_000)
  );
}

/** Guarded by the values read, because another replica may have done it. */
async function maintainOne(db: Db, row: DueRow): Promise<void> {
  const bases = row.why === "moved" && row.nextBase ? [row.baseDeployId, row.nextBase] : [row.baseDeployId];
  await inTransaction(db, async (trx) => {
    const hosts = await lockHostsOf(trx, bases);
    const { numUpdatedRows } = await trx
      .updateTable("adapter")
      .set({ ...changeFor(row), updatedAt: now })
      .where("adapterId", "=", row.adapterId)
      .where("baseDeployId", "=", row.baseDeployId)
      .where("status", "!=", "deleted")
      .executeTakeFirst();
    if (numUpdatedRows > 0n) await announceAdapters(trx, bases, hosts);
  });
}

function changeFor({ why, nextBase }: DueRow) {
  switch (why) {
    case "idle":
    case "failed":
      return { isWanted: false };
    case "moved":
      return { baseDeployId: nextBase as DeploymentId };
    case "gone":
      return {
        status: "failed" as const,
        isWanted: false,
        failReason: "base_gone: the deployment of its base model was deleted; put the adapter on another one.",
      };
  }
}

/** Locks the deployment's row until the adapter is stored, because its owner may be changing it. Call before locking hosts. */
async function supportsNone(trx: Trx, base: DeploymentId): Promise<boolean> {
  const row = await trx
    .selectFrom("deployment")
    .select("extraArgs")
    .where("deployId", "=", base)
    .forShare()
    .executeTakeFirst();
  return row?.extraArgs.includes(noAdapters) ?? false;
}

async function isDeploymentName(trx: Trx, account: AccountId, name: string): Promise<boolean> {
  return trx
    .selectFrom("deployment")
    .select("deployId")
    .where("accountId", "=", account)
    .where("kind", "=", "model")
    .where("modelName", "=", name)
    .where("status", "not in", ["deleted", "failed"])
    .$call(findsRow);
}

async function countLive(trx: Trx, account: AccountId): Promise<number> {
  const { count } = await trx
    .selectFrom("adapter")
    .select(rowCount)
    .where("accountId", "=", account)
    .where("status", "not in", [...ended])
    .executeTakeFirstOrThrow();
  return count;
}

const selectAdapters = (db: Db) =>
  db
    .selectFrom("adapter as a")
    .innerJoin("deployment as d", "d.deployId", "a.baseDeployId")
    .select(["a.adapterId as id", "a.accountId as account", "a.name", "a.baseDeployId", "a.baseModel", "a.source"])
    .select(["a.repo", "a.revision", "a.file", "a.commit", "a.isPrivate", "a.description", "a.status", "a.failReason"])
    .select([epochMs("a.createdAt").as("createdAtMs"), epochMs("a.updatedAt").as("updatedAtMs")])
    .select([
      sql<boolean>`a.token is not null`.as("hasToken"),
      sql<number>`(select count(*)::int from instance i where i.deploy_id = a.base_deploy_id and i.tombstoned_at is null
        and i.phase = 'ready' and a.adapter_id = any(i.adapters))`.as("held"),
      sql<Adapter["base"]>`json_build_object('task', d.task, 'engine', d.engine, 'gpu', d.gpu, 'numGpus', d.num_gpus,
        'maxBatchSize', d.max_batch_size)`.as("base"),
    ]);
