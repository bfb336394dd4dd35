// An account's limits and requests, read and written inside the transactions of quota-store.ts and deployments-store.ts.
import { type Kysely, type Selectable, sql, type Transaction } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { GpuCounts, GpuUse, LimitKind, LimitRecord, LimitRequest, RequestedLimits } from "../../quotas/store.ts";
import type { Database } from "../core/schema.ts";
import { liveAccount } from "./account-rows.ts";

/**
 * Serialises everything that counts against one account's limits. Readers of the row and foreign keys to it are not kept
 * waiting. False when there is no such account.
 */
export async function lockAccount(trx: Transaction<Database>, account: AccountId): Promise<boolean> {
  const found = await liveAccount(trx, account).select("accountId").forNoKeyUpdate().executeTakeFirst();
  return found !== undefined;
}

export async function readRecord(db: Kysely<Database>, account: AccountId): Promise<LimitRecord | undefined> {
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
      max: (row.gpuMax ?? {}) as GpuCounts,
      min: (row.gpuMin ?? {}) as GpuCounts,
    }
  );
}

export const tokensOf = (stored: bigint | null): number | null => (stored === null ? null : Number(stored));

/** Call after `lockAccount`. What is stopped, failed or deleted uses none; what is stopping still does. */
export async function readGpuUse(
  trx: Transaction<Database>,
  account: AccountId,
  gpu: string,
  except: string | undefined,
): Promise<GpuUse> {
  const record = await readRecord(trx, account);
  const { used } = await trx
    .selectFrom("deployment")
    .select(sql<bigint>`coalesce(sum(max_instances * num_gpus), 0)::bigint`.as("used"))
    .where("accountId", "=", account)
    .where("gpu", "=", gpu)
    .where("status", "not in", ["stopped", "failed", "deleted"])
    .$if(except !== undefined, (query) => query.where("deployId", "!=", except as string))
    .executeTakeFirstOrThrow();
  return { isAdmin: record?.isAdmin ?? false, max: record?.max ?? {}, used: Number(used) };
}

export function asRequest<Kind extends LimitKind>(row: Selectable<Database["limitRequest"]>): LimitRequest<Kind> {
  return {
    id: row.requestId,
    account: row.accountId as AccountId,
    kind: row.kind as Kind,
    requested: row.requested as RequestedLimits[Kind],
    reason: row.reason,
    revision: row.revision,
    createdAtMs: row.createdAt.getTime(),
    decision: row.decision,
    resolvedAtMs: row.resolvedAt?.getTime() ?? null,
    resolutionReason: row.resolutionReason,
  };
}

export async function writeRecord(trx: Transaction<Database>, account: AccountId, next: LimitRecord): Promise<void> {
  const { concurrent, tokensPerMinute } = next.rate;
  const values = {
    rateLimit: concurrent,
    tpmRateLimit: tokensPerMinute === null ? null : BigInt(tokensPerMinute),
    gpuMax: JSON.stringify(next.max),
    gpuMin: JSON.stringify(next.min),
    updatedAt: sql<Date>`now()`,
  };
  await trx
    .insertInto("accountLimit")
    .values({ accountId: account, ...values })
    .onConflict((at) => at.column("accountId").doUpdateSet(values))
    .execute();
}
