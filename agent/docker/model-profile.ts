import { type ConfigFacts, containerConfig } from "./container-config.ts";
import { ensureNetwork, removeNetwork } from "./instance-network.ts";
import type { ContainerProfile } from "./profile.ts";

export function modelProfile(facts: ConfigFacts & { readonly subnet: string }): ContainerProfile {
  return {
    config: async (plan) => containerConfig(plan, facts),
    prepare: (docker, id, signal) => ensureNetwork(docker, id, facts, signal),
    cleanUp: (docker, id, signal) => removeNetwork(docker, facts.nodeName, id, signal),
    seen: (observed) => observed,
  };
}
