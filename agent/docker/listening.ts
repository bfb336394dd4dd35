// A container runs before its program listens, and a program that is PID 1 ignores SIGTERM until it asked for it. So an
// instance counts as running only once its port was open; looked at once per life.
import { connect } from "node:net";
import type { Observed } from "../reconcile/driver.ts";

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
      if (await isOpen(new URL(observed.origin), signal)) {
        open.set(observed.instanceId, observed.identity);
        return observed;
      }
      const { instanceId, deployId, generation, identity } = observed;
      return { instanceId, deployId, generation, identity, state: "starting" };
    },
  };
}

function isOpen({ hostname, port }: URL, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port), signal, timeout: connectLimitMs });
    const end = (found: boolean): void => {
      socket.destroy();
      resolve(found);
    };
    socket.once("connect", () => end(true));
    socket.once("timeout", () => end(false));
    socket.once("error", () => end(false));
  });
}
