import { type Kysely, sql, type Transaction } from "kysely";
import type { AccountId } from "../../proto/ids.ts";
import type { GpuMinimums, GpuReserve, GpuSharing, ReserveStore } from "../deployments/store.ts";
import { asked } from "./asked.ts";
import type { Database } from "./schema.ts";

export function createReserveStore(db: Kysely<Database>): ReserveStore {
  return asked<ReserveStore>({
    async reserve(gpu) {
      const minimums = await db
        .selectFrom("account_limit as l")
        .innerJoin("account as a", "a.account_id", "l.account_id")
        .select(["l.account_id", "l.gpu_min"])
        .where("a.deleted_at", "is", null)
        .where("a.suspend_reason", "is", null)
        .where(sql<number>`(l.gpu_min ->> ${gpu})::bigint`, ">", 0)
        .execute();
      if (minimums.length === 0) return { gpu, minimums: new Map(), revision: 0n };
      const row = await db.selectFrom("gpu_reserve").select("revision").where("gpu", "=", gpu).executeTakeFirst();
      const of: GpuMinimums = new Map(minimums.map((one) => [one.account_id as AccountId, one.gpu_min]));
      return { gpu, minimums: of, revision: row?.revision ?? 0n };
    },

    async sharing(account, gpu) {
      const row = await db
        .selectFrom("gpu_sharing")
        .select("revision")
        .where("account_id", "=", account)
        .where("gpu", "=", gpu)
        .executeTakeFirst();
      return { account, gpu, revision: row?.revision ?? 0n };
    },
  });
}

/** False when somebody else claimed GPUs of the type since `reserve` was read. Held until the transaction ends. */
export async function moveReserve(
  trx: Transaction<Database>,
  { gpu, revision }: Pick<GpuReserve, "gpu" | "revision">,
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await trx
    .insertInto("gpu_reserve")
    .values({ gpu, revision: 1n })
    .onConflict((at) =>
      at
        .column("gpu")
        .doUpdateSet((eb) => ({ revision: eb("gpu_reserve.revision", "+", 1n) }))
        .where("gpu_reserve.revision", "=", revision),
    )
    .executeTakeFirst();
  return (numInsertedOrUpdatedRows ?? 0n) > 0n;
}

/** False when the account began to share another one of the type since `sharing` was read. Held until the transaction ends. */
export async function moveSharing(
  trx: Transaction<Database>,
  { account, gpu, revision }: GpuSharing,
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await trx
    .insertInto("gpu_sharing")
    .values({ account_id: account, gpu, revision: 1n })
    .onConflict((at) =>
      at
        .columns(["account_id", "gpu"])
        .doUpdateSet((eb) => ({ revision: eb("gpu_sharing.revision", "+", 1n) }))
        .where("gpu_sharing.revision", "=", revision),
    )
    .executeTakeFirst();
  return (numInsertedOrUpdatedRows ?? 0n) > 0n;
}
