import { sql } from "kysely";
import type { GpuMinimums, GpuReserve, GpuSharing, ReserveStore } from "../../deployments/store.ts";
import { asked } from "../core/outage.ts";
import { affectsRow } from "../core/rows.ts";
import type { Db, Trx } from "../core/schema.ts";

export function createReserveStore(db: Db): ReserveStore {
  return asked<ReserveStore>({
    async reserve(gpu) {
      const minimums = await db
        .selectFrom("accountLimit as l")
        .innerJoin("account as a", "a.accountId", "l.accountId")
        .select(["l.accountId", "l.gpuMin"])
        .where("a.deletedAt", "is", null)
        .where("a.suspendReason", "is", null)
        .where(sql<number>`(l.gpu_min ->> ${gpu})::bigint`, ">", 0)
        .execute();
      if (minimums.length === 0) return { gpu, minimums: new Map(), revision: 0n };
      const row = await db.selectFrom("gpuReserve").select("revision").where("gpu", "=", gpu).executeTakeFirst();
      const of: GpuMinimums = new Map(minimums.map((one) => [one.accountId, one.gpuMin]));
      return { gpu, minimums: of, revision: row?.revision ?? 0n };
    },

    async sharing(keys) {
      if (keys.length === 0) return [];
      const [accounts, gpus] = [keys.map((key) => key.account), keys.map((key) => key.gpu)];
      const rows = await db
        .selectFrom("gpuSharing")
        .selectAll()
        .where(sql<boolean>`(account_id, gpu) in (select * from unnest(${accounts}::text[], ${gpus}::text[]))`)
        .execute();
      return keys.map(({ account, gpu }) => {
        const row = rows.find((one) => one.accountId === account && one.gpu === gpu);
        return { account, gpu, revision: row?.revision ?? 0n };
      });
    },
  });
}

/**
 * Returns false when GPUs of the type were claimed since `reserve` was read, or another transaction is claiming some. Locks the row
 * until the commit. Waits only while another transaction inserts the row, which `revision` 0 means is missing.
 */
export async function moveReserve(trx: Trx, { gpu, revision }: Pick<GpuReserve, "gpu" | "revision">): Promise<boolean> {
  if (revision === 0n)
    return trx
      .insertInto("gpuReserve")
      .values({ gpu, revision: 1n })
      .onConflict((at) => at.doNothing())
      .$call(affectsRow);
  const { numAffectedRows } = await sql`
    with free as materialized (
      select gpu from gpu_reserve where gpu = ${gpu} and revision = ${revision} for no key update skip locked)
    update gpu_reserve r set revision = r.revision + 1 from free where r.gpu = free.gpu`.execute(trx);
  return numAffectedRows === 1n;
}

/**
 * Returns false when the account started to share another GPU since `sharing` was read, or another transaction starts it. Locks the
 * row until the commit. Waits only as `moveReserve` does.
 */
export async function moveSharing(trx: Trx, { account, gpu, revision }: GpuSharing): Promise<boolean> {
  if (revision === 0n)
    return trx
      .insertInto("gpuSharing")
      .values({ accountId: account, gpu, revision: 1n })
      .onConflict((at) => at.doNothing())
      .$call(affectsRow);
  const { numAffectedRows } = await sql`
    with free as materialized (
      select account_id, gpu from gpu_sharing where account_id = ${account} and gpu = ${gpu} and revision = ${revision}
      for no key update skip locked)
    update gpu_sharing s set revision = s.revision + 1 from free
    where s.account_id = free.account_id and s.gpu = free.gpu`.execute(trx);
  return numAffectedRows === 1n;
}
