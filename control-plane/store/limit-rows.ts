// An account's limits and requests, read and written inside the transactions of quota-store.ts and deployments-store.ts.
import { type Kysely, type Selectable, sql, type Transaction } from "kysely";
import type { AccountId } from "../../proto/ids.ts";
import type { GpuCounts, GpuUse, LimitKind, LimitRecord, LimitRequest, RequestedLimits } from "../quotas/store.ts";
import { liveAccount } from "./account-rows.ts";
import type { Database } from "./schema.ts";

/**
 * Serialises everything that counts against one account's limits. Readers of the row and foreign keys to it are not kept
 * waiting. False when there is no such account.
 */
export async function lockAccount(trx: Transaction<Database>, account: AccountId): Promise<boolean> {
  const found = await liveAccount(trx, account).select("account_id").forNoKeyUpdate().executeTakeFirst();
  return found !== undefined;
}

export async function readRecord(db: Kysely<Database>, account: AccountId): Promise<LimitRecord | undefined> {
  const row = await db
    .selectFrom("account as a")
    .leftJoin("account_limit as l", "l.account_id", "a.account_id")
    .select(["a.is_admin", "a.suspend_reason", "l.rate_limit", "l.tpm_rate_limit", "l.gpu_max", "l.gpu_min"])
    .where("a.account_id", "=", account)
    .where("a.deleted_at", "is", null)
    .executeTakeFirst();
  return (
    row && {
      isAdmin: row.is_admin,
      suspendReason: row.suspend_reason,
      rate: { concurrent: row.rate_limit, tokensPerMinute: tokensOf(row.tpm_rate_limit) },
      max: (row.gpu_max ?? {}) as GpuCounts,
      min: (row.gpu_min ?? {}) as GpuCounts,
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
    .where("account_id", "=", account)
    .where("gpu", "=", gpu)
    .where("status", "not in", ["stopped", "failed", "deleted"])
    .$if(except !== undefined, (query) => query.where("deploy_id", "!=", except as string))
    .executeTakeFirstOrThrow();
  return { isAdmin: record?.isAdmin ?? false, max: record?.max ?? {}, used: Number(used) };
}

export function asRequest<Kind extends LimitKind>(row: Selectable<Database["limit_request"]>): LimitRequest<Kind> {
  return {
    id: row.request_id,
    account: row.account_id as AccountId,
    kind: row.kind as Kind,
    requested: row.requested as RequestedLimits[Kind],
    reason: row.reason,
    revision: row.revision,
    createdAtMs: row.created_at.getTime(),
    decision: row.decision,
    resolvedAtMs: row.resolved_at?.getTime() ?? null,
    resolutionReason: row.resolution_reason,
  };
}

export async function writeRecord(trx: Transaction<Database>, account: AccountId, next: LimitRecord): Promise<void> {
  const { concurrent, tokensPerMinute } = next.rate;
  const values = {
    rate_limit: concurrent,
    tpm_rate_limit: tokensPerMinute === null ? null : BigInt(tokensPerMinute),
    gpu_max: JSON.stringify(next.max),
    gpu_min: JSON.stringify(next.min),
    updated_at: sql<Date>`now()`,
  };
  await trx
    .insertInto("account_limit")
    .values({ account_id: account, ...values })
    .onConflict((at) => at.column("account_id").doUpdateSet(values))
    .execute();
}
