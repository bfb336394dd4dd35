import type { FleetStore } from "./store.ts";

/** An older report may lack requests started since. */
const freshMs = 14_000;
/** After a day of silence a host's open holds are void. */
const voidMs = 24 * 3_600_000;

/**
 * Leases that an agent reports with a request in flight or an unacknowledged record. Undefined while a host without a recent
 * report may have one: then nothing may be taken back. Throws when the database is unavailable.
 */
export async function openLeaseIds(
  store: Pick<FleetStore, "openLeases">,
  clockScale = 1,
): Promise<ReadonlySet<string> | undefined> {
  const hosts = (await store.openLeases()).filter((host) => host.reportAgeMs < voidMs);
  if (hosts.some((host) => host.reportAgeMs > freshMs * clockScale)) return undefined;
  return new Set(hosts.flatMap((host) => host.leaseIds));
}

/** Leases last reported by hosts silent for a day, each with its host. Throws when the database is unavailable. */
export async function voidedLeases(store: Pick<FleetStore, "openLeases">): Promise<ReadonlyMap<string, string>> {
  const gone = (await store.openLeases()).filter((host) => host.reportAgeMs >= voidMs);
  return new Map(gone.flatMap((host) => host.leaseIds.map((leaseId) => [leaseId, host.hostId] as const)));
}
