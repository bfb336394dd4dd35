// GPUs reserved for accounts with minimums. A minimum is a count of GPUs of a type, not specific ones: an account below its
// minimum may take any free GPU, and all others must leave as many free as are still due.
import type { GpuType } from "../../proto/gpu.ts";
import type { AccountId } from "../../proto/ids.ts";
import { gpuTypesOn, type HostView } from "../fleet/host.ts";
import type { GpuCounts } from "../quotas/gpu-limits.ts";
import { freeGpus } from "./place-fit.ts";

/** Minimums of accounts that may deploy. */
export type GpuMinimums = ReadonlyMap<AccountId, GpuCounts>;

/** Maximum GPUs of the type that the account may newly claim; undefined: no other account has a minimum. */
export function maxNewGpus(
  minimums: GpuMinimums,
  hosts: Iterable<HostView>,
  account: AccountId,
  gpu: GpuType,
): number | undefined {
  if (!concernsOthers(minimums, account, gpu)) return undefined;
  const held = new Map<AccountId, number>();
  let free = 0;
  for (const host of hosts) {
    // Instances of a lost host are placed elsewhere, so their account needs GPUs again.
    if (host.state === "lost") continue;
    if (host.state === "live" && host.schedulable) free += freeGpus(host, gpu).length;
    const ofType = new Set(host.inventory.gpus.flatMap((one) => (one.type === gpu ? [one.uuid] : [])));
    for (const claim of host.claims)
      if (ofType.has(claim.gpuUuid)) held.set(claim.account, (held.get(claim.account) ?? 0) + 1);
  }
  const dueTo = (owner: AccountId) => Math.max(0, (minimums.get(owner)?.[gpu] ?? 0) - (held.get(owner) ?? 0));
  let due = 0;
  for (const owner of minimums.keys()) if (owner !== account) due += dueTo(owner);
  return Math.max(dueTo(account), free - due, 0);
}

/** The same for every type that at least one host has. */
export async function maxNewByType(
  hosts: readonly HostView[],
  account: AccountId,
  reserve: (gpu: GpuType) => Promise<{ readonly minimums: GpuMinimums }>,
): Promise<ReadonlyMap<GpuType, number | undefined>> {
  const maxByType = new Map<GpuType, number | undefined>();
  for (const gpu of gpuTypesOn(hosts))
    maxByType.set(gpu, maxNewGpus((await reserve(gpu)).minimums, hosts, account, gpu));
  return maxByType;
}

/** True when another account has a minimum of the type. */
export const concernsOthers = (minimums: GpuMinimums, account: AccountId, gpu: GpuType): boolean =>
  [...minimums].some(([owner, counts]) => owner !== account && (counts[gpu] ?? 0) > 0);
