import type { DeploymentId } from "../../proto/ids.ts";
import type { AgedLive } from "../fleet/live.ts";

/** Interval of the hosts' reports. */
const waitingEveryMs = 2_000;
/** Older reports are ignored. */
const staleMs = 20_000;

/** Counts the requests that wait in queues of a model's instances. Reads the hosts' figures only while batches run. */
export function waitingRequests(live: () => Promise<ReadonlyMap<unknown, AgedLive>>): (model: DeploymentId) => number {
  let known = new Map<DeploymentId, number>();
  let readMs = Number.NEGATIVE_INFINITY;
  const read = async () => {
    const counts = new Map<DeploymentId, number>();
    for (const { live: host, ageMs } of (await live()).values()) {
      if (ageMs > staleMs) continue;
      for (const { deployId, waiting } of host.instances) counts.set(deployId, (counts.get(deployId) ?? 0) + waiting);
    }
    known = counts;
  };
  return (model) => {
    if (performance.now() - readMs >= waitingEveryMs) {
      readMs = performance.now();
      // Unknown queues do not delay batches.
      read().catch(() => {
        known = new Map();
      });
    }
    return known.get(model) ?? 0;
  };
}
