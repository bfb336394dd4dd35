// Holds the last inventory. It is replaced only when it differs: each change raises the host's revision at the control plane,
// and a concurrent placement would fail. GPU faults are checked every few seconds; a fatal one updates the inventory at once.
import type { Inventory } from "../../proto/gen/stoker/fleet/v1/Inventory.ts";
import { pause } from "../../proto/pause.ts";
import { type Fault, goneFault, memoryFault, xidFault } from "../fingerprint/gpu-faults.ts";
import type { GpuSample } from "../fingerprint/gpu-load.ts";
import type { HostInventory } from "../fingerprint/inventory.ts";
import type { XidWatch } from "../fingerprint/xid.ts";
import type { UsageSpool } from "../ingress/spool.ts";
import type { GpuFaults } from "../reconcile/ports.ts";
import { bootId } from "./process.ts";

const everyMs = 60_000;
/** Interval while a reading is incomplete and a later one may complete it. */
const unclearEveryMs = 5_000;
const faultLimitMs = 2_000;
const faultsEveryMs = 2_000;
const gib = 1024 ** 3;

class DriverUnclear extends Error {
  readonly code = "driver_unclear";
}

type InventoryWatch = Awaited<ReturnType<typeof watchInventory>>;

export async function watchInventory(
  host: Pick<HostInventory, "read" | "unclearDocker">,
  lookForFaults: (signal: AbortSignal) => Promise<boolean>,
  signal: AbortSignal,
  onNews: () => void = () => {},
) {
  let current = await host.read(signal);
  let isWanted = false;
  return {
    current: () => current,
    /** Something about the GPUs looks different from what is known: read it again soon. */
    lookSoon() {
      isWanted = true;
    },
    /**
     * Reads again until it is known whether a Docker engine is here: what is chosen by that is chosen for good. Rejects with a
     * sentence once aborted.
     */
    async untilClear(limit: AbortSignal) {
      for (let why = host.unclearDocker(); why !== undefined; why = host.unclearDocker()) {
        if (limit.aborted)
          throw new DriverUnclear(`${why}: set STOKER_DRIVER to the driver of this host, or repair the engine`);
        await pause(faultsEveryMs, limit);
        current = await host.read(limit).catch(() => current);
      }
    },
    async run(until: AbortSignal) {
      let readMs = performance.now();
      while (!until.aborted) {
        await pause(faultsEveryMs, until);
        if (until.aborted) return;
        const isFaulty = await lookForFaults(until).catch(() => false);
        const pauseMs = host.unclearDocker() === undefined ? everyMs : unclearEveryMs;
        if (!isFaulty && !isWanted && performance.now() - readMs < pauseMs) continue;
        isWanted = false;
        readMs = performance.now();
        const next = await host.read(until).catch(() => current);
        if (coarse(next) === coarse(current)) continue;
        current = next;
        onNews();
      }
    },
  };
}

/**
 * Faults of GPUs as they are known, the kernel log read and the GPUs asked up to now: a program may end before the next look
 * for faults. `sample`: what nvidia-smi says of each GPU; empty where there are none, rejects where it does not answer.
 */
export function gpuFaults(
  inventory: Pick<InventoryWatch, "current" | "lookSoon">,
  xids: Pick<XidWatch, "look" | "xids">,
  sample: (signal: AbortSignal) => Promise<readonly GpuSample[]>,
): GpuFaults {
  const boot = bootId().slice(0, 8);
  return async (uuids, signal) => {
    const own = (inventory.current().gpus ?? []).filter(({ uuid }) => uuids.includes(uuid ?? ""));
    if (own.length === 0) return [];
    const bound = AbortSignal.any([signal, AbortSignal.timeout(faultLimitMs)]);
    const asked = own.some(({ pciBusId }) => pciBusId) ? sample(bound).catch(() => []) : [];
    const [isNew, samples] = await Promise.all([xids.look(bound).catch(() => false), asked]);
    const faults = own.flatMap(({ uuid = "", parentUuid = "", pciBusId = "", faultId = "", unhealthyReason = "" }) => {
      const xid = xidFault({ pciBusId }, xids.xids, boot);
      const known = faultId === "" ? undefined : { id: faultId, reason: unhealthyReason };
      const fault = xid ?? known ?? (pciBusId === "" ? undefined : faultNow(samples, parentUuid || uuid, boot));
      return fault ? [{ uuid, ...fault }] : [];
    });
    if (isNew || faults.some(({ id }) => own.every(({ faultId }) => faultId !== id))) inventory.lookSoon();
    return faults;
  };
}

/** Faults that the GPUs report; none if the tool does not reply, because its failure says nothing about one GPU. */
function faultNow(samples: readonly GpuSample[], uuid: string, boot: string): Fault | undefined {
  if (samples.length === 0) return undefined;
  const found = samples.find((one) => one.uuid === uuid);
  if (!found) return goneFault(boot);
  return memoryFault(
    {
      uncorrected: found.eccUncorrected,
      rowRemapFailure: found.rowRemapFailure === undefined ? undefined : String(found.rowRemapFailure),
    },
    boot,
  );
}

/** Free space moves all the time; a gigabyte is news. */
function coarse(inventory: Inventory): string {
  const inGib = (bytes: unknown) => Math.floor(Number(bytes ?? 0) / gib);
  return JSON.stringify({
    ...inventory,
    diskFreeBytes: inGib(inventory.diskFreeBytes),
    disks: inventory.disks?.map((disk) => ({ ...disk, freeBytes: inGib(disk.freeBytes) })),
  });
}

type Spool = Pick<UsageSpool, "isWritable">;

/** For operators; empty while records can be written. */
export function recordTrouble(spool: Spool): string {
  if (spool.isWritable) return "";
  return "it cannot write usage records, so it admits no request: its disk is full or takes no writes. Free space on the disk of the agent's data folder, or repair it; the host then continues by itself. The agent's log has the error";
}

/** True once after each change: the inventory is to be read again. */
export function recordTroubleChanges(spool: Spool): () => boolean {
  let wasWritable = true;
  return () => {
    const hasChanged = spool.isWritable !== wasWritable;
    wasWritable = spool.isWritable;
    return hasChanged;
  };
}
