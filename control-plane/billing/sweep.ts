import type { Logger } from "pino";
import type { BillingMetrics } from "./metrics.ts";
import type { LeaseStore } from "./store.ts";

export interface SweepDeps {
  readonly store: LeaseStore;
  readonly log: Logger;
  readonly metrics: BillingMetrics;
  readonly openLeaseIds: () => Promise<ReadonlySet<string> | undefined>;
  readonly voidedLeases?: () => Promise<ReadonlyMap<string, string>>;
}

/**
 * Gives back the leases that nobody renews any more, once no agent reports a request in flight or an unacknowledged record
 * on them: their record, if it ever comes, would find the money sold.
 */
export async function sweepExpired(deps: SweepDeps, graceMs: number): Promise<void> {
  const expired = await deps.store.expiredLeases(graceMs);
  if (expired.length === 0) return;
  const open = await deps.openLeaseIds();
  if (!open) return;
  const unheld = expired.filter((leaseId) => !open.has(leaseId));
  if (unheld.length === 0) return;
  const voided = (await deps.voidedLeases?.()) ?? new Map<string, string>();
  const closed = await deps.store.closeExpired(unheld, graceMs, voided);
  deps.metrics.released.inc({ what: "lease" }, closed.filter(({ leaseId }) => voided.has(leaseId)).length);
  for (const { leaseId, given } of closed)
    deps.log.info({ lease: leaseId, given: String(given) }, "expired lease returned");
  deps.metrics.leaseReturns.inc({ why: "dead" }, closed.length);
}
