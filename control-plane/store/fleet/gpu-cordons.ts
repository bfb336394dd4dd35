// GPUs out of use until an operator says otherwise: written when an agent tells of a fault, read over every inventory.
import type { Kysely, Selectable, Transaction } from "kysely";
import { sql } from "kysely";
import type { HostId } from "../../../proto/ids.ts";
import type { Gpu, GpuUncordon, Inventory } from "../../fleet/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import type { Database } from "../core/schema.ts";
import { writeAudit } from "../people/audit-rows.ts";

type Cordon = Pick<Selectable<Database["gpuCordon"]>, "gpuUuid" | "faultId" | "reason" | "liftedAt" | "cordonedAt">;

/** A fault that is known already changes nothing. */
export async function cordonFaulty(trx: Transaction<Database>, host: HostId, inventory: Inventory): Promise<void> {
  const faulty = inventory.gpus.filter((gpu) => gpu.faultId !== "");
  if (faulty.length === 0) return;
  const added = await trx
    .insertInto("gpuCordon")
    .values(
      faulty.map((gpu) => ({
        hostId: host,
        gpuUuid: gpu.uuid,
        faultId: gpu.faultId,
        reason: gpu.unhealthyReason,
        liftedAt: null,
      })),
    )
    .onConflict((at) => at.doNothing())
    .returning(["gpuUuid", "faultId", "reason"])
    .execute();
  for (const { gpuUuid, faultId, reason } of added)
    await writeAudit(trx, {
      actor: "system",
      action: "gpu.cordon",
      subject: `${host}/${gpuUuid}`,
      account: null,
      ip: "",
      after: { fault: faultId },
      note: reason,
    });
}

/** False when no GPU there is cordoned. */
export function liftCordons(db: Kysely<Database>, { host, gpu, act }: GpuUncordon): Promise<boolean> {
  return inTransaction(db, async (trx) => {
    let lifting = trx
      .updateTable("gpuCordon")
      .set({ liftedAt: sql<Date>`now()` })
      .where("hostId", "=", host)
      .where("liftedAt", "is", null);
    if (gpu !== undefined) lifting = lifting.where("gpuUuid", "=", gpu);
    const lifted = await lifting.returning(["gpuUuid", "faultId"]).execute();
    if (lifted.length === 0) return false;
    for (const { gpuUuid, faultId } of lifted)
      await writeAudit(trx, {
        actor: act.by,
        action: "gpu.uncordon",
        subject: `${host}/${gpuUuid}`,
        account: null,
        ip: act.ip,
        before: { fault: faultId },
        note: act.note,
      });
    await trx
      .updateTable("host")
      .set((eb) => ({ revision: eb("revision", "+", 1n) }))
      .where("hostId", "=", host)
      .execute();
    await announce(trx, "host", host);
    return true;
  });
}

export async function cordonedGpus(db: Kysely<Database>): Promise<ReadonlyMap<HostId, ReadonlySet<string>>> {
  const rows = await db.selectFrom("gpuCordon").select(["hostId", "gpuUuid"]).where("liftedAt", "is", null).execute();
  const byHost = Map.groupBy(rows, (row) => row.hostId as HostId);
  return new Map([...byHost].map(([host, own]) => [host, new Set(own.map((row) => row.gpuUuid))]));
}

/** The inventory as placement may believe it. */
export function withCordons(inventory: Inventory, cordons: readonly Cordon[]): Inventory {
  if (cordons.length === 0) return inventory;
  return { ...inventory, gpus: inventory.gpus.map((gpu) => judged(gpu, cordons)) };
}

function judged(gpu: Gpu, cordons: readonly Cordon[]): Gpu {
  const own = cordons.filter(({ gpuUuid }) => gpuUuid === gpu.uuid);
  const open = own.filter(({ liftedAt }) => liftedAt === null).sort((a, b) => +a.cordonedAt - +b.cordonedAt)[0];
  if (open)
    return {
      ...gpu,
      isHealthy: false,
      unhealthyReason: `cordoned: ${open.reason}`,
      cordonedAtMs: open.cordonedAt.getTime(),
    };
  // The operator has seen this fault and says that the GPU is sound. One that is away is away all the same.
  const isForgiven = own.some(({ faultId }) => faultId === gpu.faultId) && !gpu.faultId.startsWith("gone:");
  return isForgiven ? { ...gpu, isHealthy: true, unhealthyReason: "" } : gpu;
}
