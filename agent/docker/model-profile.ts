import { ensureNetwork } from "./bridge-network.ts";
import { type ConfigFacts, containerConfig } from "./container-config.ts";
import type { Firewall } from "./firewall.ts";
import { firewalledNetworks } from "./firewalled-networks.ts";
import type { ContainerProfile } from "./profile.ts";

export function modelProfile(
  facts: ConfigFacts & {
    readonly subnet: string;
    readonly firewall: Firewall;
    readonly onTrouble: (err: unknown) => void;
  },
): ContainerProfile {
  const networks = firewalledNetworks({
    nodeName: facts.nodeName,
    firewall: facts.firewall,
    ensure: (docker, id, signal) => ensureNetwork(docker, id, facts, signal),
  });
  return {
    config: async (plan) => containerConfig(plan, facts),
    prepare: networks.prepare,
    cleanUp: networks.cleanUp,
    // Running instances continue and stay observed if their rules cannot be set again.
    async uphold(ids, docker, signal) {
      await networks.uphold(ids, docker, signal).catch(facts.onTrouble);
    },
    seen: (observed) => observed,
  };
}
