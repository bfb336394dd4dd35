// GPUs out of use until an operator says otherwise: written when an agent tells of a fault, read over every inventory.
import type { Kysely, Selectable, Transaction } from "kysely";
import { sql } from "kysely";
import type { HostId } from "../../proto/ids.ts";
import type { Gpu, GpuUncordon, Inventory } from "../fleet/store.ts";
import { writeAudit } from "./audit-rows.ts";
import { announce } from "./change-feed.ts";
import { inTransaction } from "./database.ts";
import type { Database } from "./schema.ts";

type Cordon = Pick<
  Selectable<Database["gpu_cordon"]>,
  "gpu_uuid" | "fault_id" | "reason" | "lifted_at" | "cordoned_at"
>;

/** A fault that is known already changes nothing. */
export async function cordonFaulty(trx: Transaction<Database>, host: HostId, inventory: Inventory): Promise<void> {
  const faulty = inventory.gpus.filter((gpu) => gpu.faultId !== "");
  if (faulty.length === 0) return;
  const added = await trx
    .insertInto("gpu_cordon")
    .values(
      faulty.map((gpu) => ({
        host_id: host,
        gpu_uuid: gpu.uuid,
        fault_id: gpu.faultId,
        reason: gpu.unhealthyReason,
        lifted_at: null,
      })),
    )
    .onConflict((at) => at.doNothing())
    .returning(["gpu_uuid", "fault_id", "reason"])
    .execute();
  for (const { gpu_uuid, fault_id, reason } of added)
    await writeAudit(trx, {
      actor: "system",
      action: "gpu.cordon",
      subject: `${host}/${gpu_uuid}`,
      account: null,
      ip: "",
      after: { fault: fault_id },
      note: reason,
    });
}

/** False when no GPU there is cordoned. */
export function liftCordons(db: Kysely<Database>, { host, gpu, act }: GpuUncordon): Promise<boolean> {
  return inTransaction(db, async (trx) => {
    let lifting = trx
      .updateTable("gpu_cordon")
      .set({ lifted_at: sql<Date>`now()` })
      .where("host_id", "=", host)
      .where("lifted_at", "is", null);
    if (gpu !== undefined) lifting = lifting.where("gpu_uuid", "=", gpu);
    const lifted = await lifting.returning(["gpu_uuid", "fault_id"]).execute();
    if (lifted.length === 0) return false;
    for (const { gpu_uuid, fault_id } of lifted)
      await writeAudit(trx, {
        actor: act.by,
        action: "gpu.uncordon",
        subject: `${host}/${gpu_uuid}`,
        account: null,
        ip: act.ip,
        before: { fault: fault_id },
        note: act.note,
      });
    await trx
      .updateTable("host")
      .set((eb) => ({ revision: eb("revision", "+", 1n) }))
      .where("host_id", "=", host)
      .execute();
    await announce(trx, "host", host);
    return true;
  });
}

export async function cordonedGpus(db: Kysely<Database>): Promise<ReadonlyMap<HostId, ReadonlySet<string>>> {
  const rows = await db
    .selectFrom("gpu_cordon")
    .select(["host_id", "gpu_uuid"])
    .where("lifted_at", "is", null)
    .execute();
  const byHost = Map.groupBy(rows, (row) => row.host_id as HostId);
  return new Map([...byHost].map(([host, own]) => [host, new Set(own.map((row) => row.gpu_uuid))]));
}

/** The inventory as placement may believe it. */
export function withCordons(inventory: Inventory, cordons: readonly Cordon[]): Inventory {
  if (cordons.length === 0) return inventory;
  return { ...inventory, gpus: inventory.gpus.map((gpu) => judged(gpu, cordons)) };
}

function judged(gpu: Gpu, cordons: readonly Cordon[]): Gpu {
  const own = cordons.filter(({ gpu_uuid }) => gpu_uuid === gpu.uuid);
  const open = own.filter(({ lifted_at }) => lifted_at === null).sort((a, b) => +a.cordoned_at - +b.cordoned_at)[0];
  if (open)
    return {
      ...gpu,
      isHealthy: false,
      unhealthyReason: `cordoned: ${open.reason}`,
      cordonedAtMs: open.cordoned_at.getTime(),
    };
  // The operator has seen this fault and says that the GPU is sound. One that is away is away all the same.
  const isForgiven = own.some(({ fault_id }) => fault_id === gpu.faultId) && !gpu.faultId.startsWith("gone:");
  return isForgiven ? { ...gpu, isHealthy: true, unhealthyReason: "" } : gpu;
}
