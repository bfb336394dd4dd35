import { type Kysely, type Selectable, sql, type Transaction } from "kysely";
import { noAdapters } from "../../../proto/engine-args.ts";
import { isGpuType } from "../../../proto/gpu.ts";
import type { AccountId, AdapterId, DeploymentId } from "../../../proto/ids.ts";
import type { Adapter, AdapterStanding, AdapterStore, Deployment } from "../../deployments/store.ts";
import { asked } from "../core/asked.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import type { Database } from "../core/schema.ts";
import { lockAccount } from "../people/limit-rows.ts";
import { ended, lockHostsOf, tellAdapters } from "./adapter-rows.ts";

/** Many callers at once write it down once. */
const usedEverySeconds = 30;
/** One that was used so lately does not give its place to another. */
const settledSeconds = 20;
/** An instance unloads one and tries the other again within this. */
const roomSeconds = 30;

export function createAdapterStore(db: Kysely<Database>): AdapterStore {
  const own = (account: AccountId) => selectAdapters(db).where("a.accountId", "=", account);

  const store: AdapterStore = {
    async insert(next, most, room) {
      try {
        const refusal = await inTransaction(db, async (trx) => {
          if (!(await lockAccount(trx, next.account))) return "account_gone";
          if (await isDeploymentName(trx, next.account, next.name)) return "name_taken";
          if ((await countLive(trx, next.account)) >= most) return "too_many";
          if (await takesNone(trx, next.baseDeployId)) return "base_takes_none";
          const hosts = await lockHostsOf(trx, [next.baseDeployId]);
          await trx
            .insertInto("adapter")
            .values({
              adapterId: next.id,
              accountId: next.account,
              name: next.name,
              baseDeployId: next.baseDeployId,
              baseModel: next.baseModel,
              isBasePublic: next.isBasePublic,
              source: next.source,
              repo: next.repo,
              revision: next.revision,
              file: next.file,
              url: next.url,
              token: next.token,
              commit: next.commit,
              isPrivate: next.isPrivate,
              description: next.description,
              // The first caller is not to wait for it, if there is room.
              isWanted: sql<boolean>`(select count(*) < ${room} from adapter o
                where o.base_deploy_id = ${next.baseDeployId} and o.is_wanted and o.status not in ('deleted', 'failed'))`,
            })
            .execute();
          await tellAdapters(trx, [next.baseDeployId], hosts);
          return undefined;
        });
        if (refusal) return refusal;
      } catch (error) {
        if (uniqueViolation(error) === "adapter_name") return "name_taken";
        throw error;
      }
      return (await store.get(next.id, next.account)) ?? "account_gone";
    },

    async find(name, account) {
      const row = await own(account)
        .where("a.name", "=", name)
        .where("a.status", "!=", "deleted")
        // A live one before those that failed.
        .orderBy(sql`a.status = 'failed'`)
        .orderBy("a.createdAt", "desc")
        .executeTakeFirst();
      return row && asAdapter(row);
    },

    async get(id, account) {
      const row = await own(account).where("a.adapterId", "=", id).executeTakeFirst();
      return row && asAdapter(row);
    },

    async list(account, baseModel) {
      const rows = await own(account)
        .where(sql<boolean>`a.status <> 'deleted'`)
        .$if(baseModel !== undefined, (query) => query.where("a.baseModel", "=", baseModel as string))
        .orderBy("a.createdAt", "desc")
        .execute();
      return rows.map(asAdapter);
    },

    async change(id, account, { isPrivate, description }) {
      const { numUpdatedRows } = await db
        .updateTable("adapter")
        .set({
          ...(isPrivate === undefined ? {} : { isPrivate: isPrivate }),
          ...(description === undefined ? {} : { description }),
          updatedAt: sql<Date>`now()`,
        })
        .where("adapterId", "=", id)
        .where("accountId", "=", account)
        .where("status", "!=", "deleted")
        .executeTakeFirst();
      return numUpdatedRows > 0n;
    },

    remove: (id, account) =>
      changing(db, id, account, async (trx) => {
        const { numUpdatedRows } = await trx
          .updateTable("adapter")
          .set({ status: "deleted", isWanted: false, token: null, url: null, updatedAt: sql<Date>`now()` })
          .where("adapterId", "=", id)
          .where("status", "!=", "deleted")
          .executeTakeFirst();
        return { isTold: true, result: numUpdatedRows > 0n };
      }).then((isRemoved) => isRemoved ?? false),

    async used(id, account) {
      await db
        .updateTable("adapter")
        .set({ usedAt: sql<Date>`now()` })
        .where("adapterId", "=", id)
        .where("accountId", "=", account)
        .where(sql<boolean>`used_at < now() - make_interval(secs => ${usedEverySeconds})`)
        .execute();
    },

    want: (id, account, maxHeld) => want(db, id, account, maxHeld),

    async tend(idleMs) {
      const rows = await dueOnes(db, idleMs).execute();
      for (const row of rows) await tendOne(db, row);
      return rows.length;
    },
  };
  return asked(store);
}

/**
 * A write that hosts are to be told of. Hosts first, then the adapter's row; undefined when the account has no such adapter.
 */
async function changing<T>(
  db: Kysely<Database>,
  id: AdapterId,
  account: AccountId,
  write: (trx: Transaction<Database>, base: string) => Promise<{ readonly isTold: boolean; readonly result: T }>,
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
    const { isTold, result } = await write(trx, row.baseDeployId);
    if (isTold) await tellAdapters(trx, [row.baseDeployId], hosts);
    return result;
  });
}

async function want(
  db: Kysely<Database>,
  id: AdapterId,
  account: AccountId,
  maxHeld: (engine: string, task: string) => number,
): Promise<AdapterStanding> {
  const standing = await changing<AdapterStanding>(db, id, account, async (trx, base) => {
    // One at a time per base, also while nothing of it runs.
    const others = await trx
      .selectFrom("adapter")
      .select(["adapterId", "isWanted", "status", "failReason"])
      .select(
        sql<boolean>`coalesce(room_made_at > now() - make_interval(secs => ${roomSeconds}), false)`.as("hasAsked"),
      )
      .select(sql<boolean>`used_at > now() - make_interval(secs => ${settledSeconds})`.as("isSettled"))
      .where("baseDeployId", "=", base)
      .where((eb) => eb.or([eb("isWanted", "=", true), eb("adapterId", "=", id)]))
      .orderBy("usedAt")
      .orderBy("adapterId")
      .forUpdate()
      .execute();
    const quiet = (result: AdapterStanding) => ({ isTold: false, result });
    const mine = others.find((row) => row.adapterId === id);
    if (!mine || mine.status === "deleted") return quiet("gone");
    if (mine.status === "failed") return quiet("failed");
    const standing = mine.failReason === "" ? "wanted" : "trouble";
    const held = others.filter((row) => row.isWanted && row.status !== "failed" && row.status !== "deleted");
    if (mine.isWanted && mine.failReason.startsWith("adapter_no_room:") && !mine.hasAsked) {
      // A host has no memory for one more: the place of one is given away, and whether that was enough is waited for.
      const [idle] = held.filter((row) => row.adapterId !== id && !row.isSettled);
      if (idle) {
        await setWanted(trx, [idle.adapterId], false);
        const now = sql<Date>`now()`;
        await trx
          .updateTable("adapter")
          .set({ roomMadeAt: now, usedAt: now, failReason: "" })
          .where("adapterId", "=", id)
          .execute();
        return { isTold: true, result: "wanted" };
      }
    }
    if (mine.isWanted) {
      await trx.updateTable("adapter").set({ usedAt: sql<Date>`now()` }).where("adapterId", "=", id).execute();
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
    await trx
      .updateTable("adapter")
      .set({ isWanted: true, usedAt: sql<Date>`now()` })
      .where("adapterId", "=", id)
      .execute();
    return { isTold: true, result: standing };
  });
  return standing ?? "gone";
}

async function setWanted(trx: Transaction<Database>, ids: readonly string[], isWanted: boolean): Promise<void> {
  if (ids.length === 0) return;
  await trx
    .updateTable("adapter")
    .set({ isWanted: isWanted })
    .where("adapterId", "in", [...ids])
    .execute();
}

interface DueRow {
  readonly adapterId: string;
  readonly baseDeployId: string;
  readonly why: "idle" | "moved" | "gone" | "failed";
  readonly nextBase: string | null;
}

/** What a look at the clock or at the base asks for. */
function dueOnes(db: Kysely<Database>, idleMs: number) {
  const isIdle = sql<boolean>`a.is_wanted and a.used_at < now() - make_interval(secs => ${idleMs / 1000})`;
  const isMoved = sql<boolean>`coalesce(p.deploy_id <> a.base_deploy_id, false)`;
  const isGone = sql<boolean>`d.status = 'deleted'`;
  // A host said so; the others are not to try it any more.
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
      // Those that were deleted are many: their rows are not read.
      .where(sql<boolean>`a.status <> 'deleted'`)
      .where(
        sql<boolean>`(${hasFailed} or (a.status not in ('failed', 'deleted') and (${isIdle} or ${isMoved} or ${isGone})))`,
      )
      .orderBy("a.adapterId")
      .limit(1_000)
  );
}

/** Guarded by what was seen: another replica may have done it. */
async function tendOne(db: Kysely<Database>, row: DueRow): Promise<void> {
  const bases = row.why === "moved" && row.nextBase ? [row.baseDeployId, row.nextBase] : [row.baseDeployId];
  await inTransaction(db, async (trx) => {
    const hosts = await lockHostsOf(trx, bases);
    const { numUpdatedRows } = await trx
      .updateTable("adapter")
      .set({ ...tended(row), updatedAt: sql<Date>`now()` })
      .where("adapterId", "=", row.adapterId)
      .where("baseDeployId", "=", row.baseDeployId)
      .where("status", "!=", "deleted")
      .executeTakeFirst();
    if (numUpdatedRows > 0n) await tellAdapters(trx, bases, hosts);
  });
}

function tended({ why, nextBase }: DueRow) {
  switch (why) {
    case "idle":
    case "failed":
      return { isWanted: false };
    case "moved":
      return { baseDeployId: nextBase as string };
    case "gone":
      return {
        status: "failed" as const,
        isWanted: false,
        failReason: "base_gone: the deployment of its base model was deleted; put the adapter on another one.",
      };
  }
}

/**
 * Its owner may have said so a moment ago, or be saying so: the row is held until the adapter is there. Before hosts: the order of
 * everybody who writes both.
 */
async function takesNone(trx: Transaction<Database>, base: DeploymentId): Promise<boolean> {
  const row = await trx
    .selectFrom("deployment")
    .select("extraArgs")
    .where("deployId", "=", base)
    .forShare()
    .executeTakeFirst();
  return row?.extraArgs.includes(noAdapters) ?? false;
}

async function isDeploymentName(trx: Transaction<Database>, account: AccountId, name: string): Promise<boolean> {
  const found = await trx
    .selectFrom("deployment")
    .select("deployId")
    .where("accountId", "=", account)
    .where("kind", "=", "model")
    .where("modelName", "=", name)
    .where("status", "not in", ["deleted", "failed"])
    .executeTakeFirst();
  return found !== undefined;
}

async function countLive(trx: Transaction<Database>, account: AccountId): Promise<number> {
  const { count } = await trx
    .selectFrom("adapter")
    .select((eb) => eb.fn.countAll<bigint>().as("count"))
    .where("accountId", "=", account)
    .where("status", "not in", [...ended])
    .executeTakeFirstOrThrow();
  return Number(count);
}

const selectAdapters = (db: Kysely<Database>) =>
  db
    .selectFrom("adapter as a")
    .innerJoin("deployment as d", "d.deployId", "a.baseDeployId")
    .selectAll("a")
    .select(["d.task", "d.engine", "d.gpu", "d.numGpus", "d.maxBatchSize"])
    .select(
      sql<bigint>`(select count(*) from instance i where i.deploy_id = a.base_deploy_id and i.tombstoned_at is null
        and i.phase = 'ready' and a.adapter_id = any(i.adapters))`.as("held"),
    );

type AdapterRow = Selectable<Database["adapter"]> &
  Pick<Selectable<Database["deployment"]>, "task" | "engine" | "gpu" | "numGpus" | "maxBatchSize"> & {
    readonly held: bigint;
  };

const asAdapter = (row: AdapterRow): Adapter => ({
  id: row.adapterId as AdapterId,
  account: row.accountId as AccountId,
  name: row.name,
  baseDeployId: row.baseDeployId as DeploymentId,
  baseModel: row.baseModel,
  source: row.source,
  repo: row.repo,
  revision: row.revision,
  file: row.file,
  commit: row.commit,
  hasToken: row.token !== null,
  isPrivate: row.isPrivate,
  description: row.description,
  status: row.status,
  failReason: row.failReason,
  held: Number(row.held),
  base: {
    task: row.task,
    engine: row.engine as Deployment["engine"],
    gpu: isGpuType(row.gpu) ? row.gpu : "other",
    numGpus: row.numGpus,
    maxBatchSize: row.maxBatchSize,
  },
  createdAtMs: row.createdAt.getTime(),
  updatedAtMs: row.updatedAt.getTime(),
});
