import type { Observed } from "../reconcile/driver.ts";
import { isPortOpen } from "./port-open.ts";

const connectLimitMs = 500;

/**
 * Reports a container as running only after its port was open once: a program that is PID 1 ignores SIGTERM until it has installed
 * a handler.
 */
export function createListening() {
  const open = new Map<string, string>();
  return {
    /** Returns `observed`, or `starting` while nothing listens at its origin. */
    async check(observed: Observed, signal: AbortSignal): Promise<Observed> {
      if (observed.state === "exited") open.delete(observed.instanceId);
      if (observed.state !== "running" || open.get(observed.instanceId) === observed.identity) return observed;
      const { hostname, port } = new URL(observed.origin);
      if (await isPortOpen(hostname, Number(port), connectLimitMs, signal)) {
        open.set(observed.instanceId, observed.identity);
        return observed;
      }
      const { instanceId, deployId, generation, claimedGpus, identity } = observed;
      return { instanceId, deployId, generation, ...(claimedGpus ? { claimedGpus } : {}), identity, state: "starting" };
    },
  };
}
