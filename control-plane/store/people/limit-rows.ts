// An account's limits, read and written in the transactions of quota-store.ts and deployments-store.ts.
import { sql } from "kysely";
import type { GpuType } from "../../../proto/gpu.ts";
import type { AccountId, DeploymentId } from "../../../proto/ids.ts";
import type { GpuUse, LimitRecord } from "../../quotas/store.ts";
import { findsRow } from "../core/rows.ts";
import type { Db, Trx } from "../core/schema.ts";
import { now } from "../core/time.ts";
import { liveAccount } from "./account-rows.ts";

/**
 * Serialises everything that counts against one account's limits. Does not block readers of the row or foreign keys to it.
 * Returns false when there is no such account.
 */
export async function lockAccount(trx: Trx, account: AccountId): Promise<boolean> {
  return liveAccount(trx, account).select("accountId").forNoKeyUpdate().$call(findsRow);
}

export async function readRecord(db: Db, account: AccountId): Promise<LimitRecord | undefined> {
  const row = await db
    .selectFrom("account as a")
    .leftJoin("accountLimit as l", "l.accountId", "a.accountId")
    .select(["a.isAdmin", "a.suspendReason", "l.rateLimit", "l.tpmRateLimit", "l.gpuMax", "l.gpuMin"])
    .where("a.accountId", "=", account)
    .where("a.deletedAt", "is", null)
    .executeTakeFirst();
  return (
    row && {
      isAdmin: row.isAdmin,
      suspendReason: row.suspendReason,
      rate: { concurrent: row.rateLimit, tokensPerMinute: tokensOf(row.tpmRateLimit) },
      max: row.gpuMax ?? {},
      min: row.gpuMin ?? {},
    }
  );
}

export const tokensOf = (stored: bigint | null): number | null => (stored === null ? null : Number(stored));

/** Call after `lockAccount`. Stopping deployments count; stopped, failed and deleted ones do not. */
export async function readGpuUse(
  trx: Trx,
  account: AccountId,
  gpu: GpuType,
  except: DeploymentId | undefined,
): Promise<GpuUse> {
  const record = await readRecord(trx, account);
  const { used } = await trx
    .selectFrom("deployment")
    .select(sql<number>`coalesce(sum(max_instances * num_gpus), 0)::float8`.as("used"))
    .where("accountId", "=", account)
    .where("gpu", "=", gpu)
    .where("status", "not in", ["stopped", "failed", "deleted"])
    .$if(except !== undefined, (query) => query.where("deployId", "!=", except as DeploymentId))
    .executeTakeFirstOrThrow();
  return { isAdmin: record?.isAdmin ?? false, max: record?.max ?? {}, used };
}

export async function writeRecord(trx: Trx, account: AccountId, next: LimitRecord): Promise<void> {
  const { concurrent, tokensPerMinute } = next.rate;
  const values = {
    rateLimit: concurrent,
    tpmRateLimit: tokensPerMinute === null ? null : BigInt(tokensPerMinute),
    gpuMax: JSON.stringify(next.max),
    gpuMin: JSON.stringify(next.min),
    updatedAt: now,
  };
  await trx
    .insertInto("accountLimit")
    .values({ accountId: account, ...values })
    .onConflict((at) => at.column("accountId").doUpdateSet(values))
    .execute();
}
