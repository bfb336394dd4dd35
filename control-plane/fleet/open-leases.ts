import type { FleetStore } from "./store.ts";

/** A report older than this may not know of a request that was started since. */
const freshMs = 14_000;
/** A host unheard for a day holds nothing back any more: its open holds are void. */
const voidMs = 24 * 3_600_000;

/**
 * Leases of which some agent has a request in flight or an unacknowledged record. Undefined while a host that may have
 * one has not reported just now: then nothing may be taken back. Throws when the database is away.
 */
export async function openLeaseIds(
  store: Pick<FleetStore, "openLeases">,
  clockScale = 1,
): Promise<ReadonlySet<string> | undefined> {
  const hosts = (await store.openLeases()).filter((host) => host.reportAgeMs < voidMs);
  if (hosts.some((host) => host.reportAgeMs > freshMs * clockScale)) return undefined;
  return new Set(hosts.flatMap((host) => host.leaseIds));
}

/** Leases that a host unheard for a day reported last, each with that host. Throws when the database is away. */
export async function voidedLeases(store: Pick<FleetStore, "openLeases">): Promise<ReadonlyMap<string, string>> {
  const gone = (await store.openLeases()).filter((host) => host.reportAgeMs >= voidMs);
  return new Map(gone.flatMap((host) => host.leaseIds.map((leaseId) => [leaseId, host.hostId] as const)));
}
