// Networks of instances behind a firewall. INVARIANT: no such network exists without the firewall's rules; networks and rules
// are changed by one caller at a time.
import type Docker from "dockerode";
import type { InstanceId } from "../../proto/ids.ts";
import type { Firewall } from "./firewall.ts";
import { removeNetwork } from "./instance-network.ts";
import { labelFilter } from "./labels.ts";
import type { ContainerProfile } from "./profile.ts";

const upholdEveryMs = 30_000;

export interface FirewalledNetworks extends Required<Pick<ContainerProfile, "prepare" | "cleanUp" | "uphold">> {
  /** With no network made and no rule changed meanwhile. */
  alone<T>(work: () => Promise<T>): Promise<T>;
}

export function firewalledNetworks(options: {
  readonly nodeName: string;
  readonly firewall: Pick<Firewall, "apply" | "remove">;
  ensure(docker: Docker, id: InstanceId, signal: AbortSignal): Promise<void>;
}): FirewalledNetworks {
  const { nodeName, firewall } = options;
  let last: Promise<unknown> = Promise.resolve();
  let upheldAtMs = Number.NEGATIVE_INFINITY;
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
    // What was adopted has its rules before anything else, and a firewall that somebody reloads gets them back.
    async uphold(ids) {
      if (ids.length === 0 || performance.now() - upheldAtMs < upholdEveryMs) return;
      upheldAtMs = performance.now();
      await alone(() => firewall.apply());
    },
  };
}
