// Cordons of GPUs: created when an agent reports a fault, applied to every inventory until an operator lifts them.
import type { Selectable } from "kysely";
import type { HostId } from "../../../proto/ids.ts";
import type { Gpu, GpuUncordon, Inventory } from "../../fleet/store.ts";
import { auditAct, auditSystem } from "../accounts/audit-rows.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import type { Database, Db, Trx } from "../core/schema.ts";
import { now } from "../core/time.ts";

type Cordon = Pick<Selectable<Database["gpuCordon"]>, "gpuUuid" | "faultId" | "reason" | "liftedAt" | "cordonedAt">;

/** Cordons GPUs with a new fault; a known fault has no effect. */
export async function cordonFaulty(trx: Trx, host: HostId, inventory: Inventory): Promise<void> {
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
    await auditSystem(trx, {
      action: "gpu.cordon",
      subject: `${host}/${gpuUuid}`,
      account: null,
      after: { fault: faultId },
      note: reason,
    });
}

/** Returns false when no GPU there is cordoned. */
export function liftCordons(db: Db, { host, gpu, act }: GpuUncordon): Promise<boolean> {
  return inTransaction(db, async (trx) => {
    let lifting = trx
      .updateTable("gpuCordon")
      .set({ liftedAt: now })
      .where("hostId", "=", host)
      .where("liftedAt", "is", null);
    if (gpu !== undefined) lifting = lifting.where("gpuUuid", "=", gpu);
    const lifted = await lifting.returning(["gpuUuid", "faultId"]).execute();
    if (lifted.length === 0) return false;
    for (const { gpuUuid, faultId } of lifted)
      await auditAct(trx, act, {
        action: "gpu.uncordon",
        subject: `${host}/${gpuUuid}`,
        account: null,
        before: { fault: faultId },
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

export async function cordonedGpus(db: Db): Promise<ReadonlyMap<HostId, ReadonlySet<string>>> {
  const rows = await db.selectFrom("gpuCordon").select(["hostId", "gpuUuid"]).where("liftedAt", "is", null).execute();
  const byHost = Map.groupBy(rows, (row) => row.hostId);
  return new Map([...byHost].map(([host, own]) => [host, new Set(own.map((row) => row.gpuUuid))]));
}

/** Returns the inventory with cordons applied to the health of its GPUs. */
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
  // The operator confirmed that the GPU works despite this fault. A missing GPU stays unhealthy.
  const isConfirmed = own.some(({ faultId }) => faultId === gpu.faultId) && !gpu.faultId.startsWith("gone:");
  return isConfirmed ? { ...gpu, isHealthy: true, unhealthyReason: "" } : gpu;
}
