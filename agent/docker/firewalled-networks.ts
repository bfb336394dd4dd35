// Networks of instances behind a firewall. INVARIANT: no such network exists without the firewall's rules; networks and rules
// are changed by one caller at a time.
import type Docker from "dockerode";
import type { InstanceId } from "../../proto/ids.ts";
import { removeNetwork } from "./bridge-network.ts";
import type { Firewall } from "./firewall.ts";
import { labelFilter } from "./labels.ts";
import type { ContainerProfile } from "./profile.ts";

const upholdEveryMs = 30_000;
/** Delay after a failure; in the meantime the earlier rules usually still apply. */
const tryAgainMs = 5_000;

interface FirewalledNetworks extends Required<Pick<ContainerProfile, "prepare" | "cleanUp">> {
  /** False: not due. Throws what the firewall said, and is due again 5 s later. */
  uphold(ids: readonly InstanceId[], docker: Docker, signal: AbortSignal): Promise<boolean>;
  /** Runs while no network is created and no rule changed. */
  alone<T>(work: () => Promise<T>): Promise<T>;
}

export function firewalledNetworks(options: {
  readonly nodeName: string;
  readonly firewall: Pick<Firewall, "apply" | "remove">;
  ensure(docker: Docker, id: InstanceId, signal: AbortSignal): Promise<void>;
  readonly nowMs?: () => number;
}): FirewalledNetworks {
  const { nodeName, firewall, nowMs = () => performance.now() } = options;
  let last: Promise<unknown> = Promise.resolve();
  let nextAtMs = Number.NEGATIVE_INFINITY;
  function alone<T>(work: () => Promise<T>): Promise<T> {
    const mine = last.then(work, work);
    last = mine.catch(() => {});
    return mine;
  }

  return {
    alone,
    prepare: (docker, id, signal) =>
      alone(async () => {
        await firewall.apply();
        await options.ensure(docker, id, signal);
      }),
    cleanUp: (docker, id, signal) =>
      alone(async () => {
        await removeNetwork(docker, nodeName, id, signal);
        const left = await docker.listNetworks({ filters: labelFilter(nodeName), abortSignal: signal });
        if (left.length === 0) await firewall.remove();
      }),
    // Set the rules of adopted networks first, and restore them in a firewall that was reloaded.
    async uphold(ids, docker, signal) {
      if (ids.length === 0 || nowMs() < nextAtMs) return false;
      nextAtMs = nowMs() + tryAgainMs;
      await alone(async () => {
        // The last network may have been removed since it was observed: its rules would stay.
        const networks = docker.listNetworks({ filters: labelFilter(nodeName), abortSignal: signal });
        if ((await networks.catch(() => undefined))?.length !== 0) await firewall.apply();
      });
      nextAtMs = nowMs() + upholdEveryMs;
      return true;
    },
  };
}
