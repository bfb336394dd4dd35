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

/** Returns false when GPUs of the type were claimed since `reserve` was read. Locks the row until the commit. */
export async function moveReserve(trx: Trx, { gpu, revision }: Pick<GpuReserve, "gpu" | "revision">): Promise<boolean> {
  return trx
    .insertInto("gpuReserve")
    .values({ gpu, revision: 1n })
    .onConflict((at) =>
      at
        .column("gpu")
        .doUpdateSet((eb) => ({ revision: eb("gpuReserve.revision", "+", 1n) }))
        .where("gpuReserve.revision", "=", revision),
    )
    .$call(affectsRow);
}

/** Returns false when the account started to share another GPU since `sharing` was read. Locks the row until the commit. */
export async function moveSharing(trx: Trx, { account, gpu, revision }: GpuSharing): Promise<boolean> {
  return trx
    .insertInto("gpuSharing")
    .values({ accountId: account, gpu, revision: 1n })
    .onConflict((at) =>
      at
        .columns(["accountId", "gpu"])
        .doUpdateSet((eb) => ({ revision: eb("gpuSharing.revision", "+", 1n) }))
        .where("gpuSharing.revision", "=", revision),
    )
    .$call(affectsRow);
}
