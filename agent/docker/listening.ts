// A container runs before its program listens, and a program that is PID 1 ignores SIGTERM until it asked for it. So an
// instance counts as running only once its port was open; looked at once per life.
import type { Observed } from "../reconcile/driver.ts";
import { isPortOpen } from "./port-open.ts";

const connectLimitMs = 500;

export interface Listening {
  /** The same, or `starting` while nothing listens at its origin yet. */
  check(observed: Observed, signal: AbortSignal): Promise<Observed>;
}

export function createListening(): Listening {
  const open = new Map<string, string>();
  return {
    async check(observed, signal) {
      if (observed.state === "exited") open.delete(observed.instanceId);
      if (observed.state !== "running" || open.get(observed.instanceId) === observed.identity) return observed;
      const { hostname, port } = new URL(observed.origin);
      if (await isPortOpen(hostname, Number(port), connectLimitMs, signal)) {
        open.set(observed.instanceId, observed.identity);
        return observed;
      }
      const { instanceId, deployId, generation, identity } = observed;
      return { instanceId, deployId, generation, identity, state: "starting" };
    },
  };
}
