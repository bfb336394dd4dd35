// The last inventory that was read. It is replaced only when it says something new: each change moves the host's revision
// at the control plane, which a placement in the making would lose against.
import { setTimeout as wait } from "node:timers/promises";
import type { Inventory } from "../../proto/gen/stoker/fleet/v1/Inventory.ts";

const everyMs = 60_000;
const gib = 1024 ** 3;

export interface InventoryWatch {
  current(): Inventory;
  /** Until aborted. */
  run(signal: AbortSignal): Promise<void>;
}

export async function watchInventory(
  read: (signal: AbortSignal) => Promise<Inventory>,
  signal: AbortSignal,
): Promise<InventoryWatch> {
  let current = await read(signal);
  return {
    current: () => current,
    async run(until) {
      while (!until.aborted) {
        await wait(everyMs, undefined, { signal: until }).catch(() => {});
        if (until.aborted) return;
        const next = await read(until).catch(() => current);
        if (coarse(next) !== coarse(current)) current = next;
      }
    },
  };
}

/** Free space moves all the time; a gigabyte is news. */
function coarse(inventory: Inventory): string {
  return JSON.stringify({ ...inventory, diskFreeBytes: Math.floor(Number(inventory.diskFreeBytes ?? 0) / gib) });
}
