// Closes what the engine's internal networks leave open: a container on one still reaches every service of the host that listens on
// all addresses, by its bridge's gateway. These rules let the host ask and never be asked, whatever the engine's own rules say.
import type { Logger } from "pino";
import { DriverError } from "../reconcile/driver.ts";
import { modelBridgePrefix } from "./bridge-network.ts";
import {
  chainPrefix,
  createFirewall,
  type Firewall,
  type FirewallOptions,
  firstLine,
  type Rules,
  ruleSet,
} from "./firewall.ts";

export interface ModelFirewallOptions extends FirewallOptions {
  readonly nodeName: string;
  readonly log: Logger;
  /** True: nothing is started if no rule can be set. False: it is started, and the operator was warned. */
  readonly isRequired: boolean;
}

/** `apply` throws DriverError where rules can be set and these could not, or where they are required. */
export function createModelFirewall(options: ModelFirewallOptions): Firewall {
  const { isRequired, log } = options;
  const firewall = createFirewall(modelRules(options.nodeName), options);
  return {
    async whyNot() {
      const why = await firewall.whyNot();
      if (why === undefined) return undefined;
      const then = isRequired
        ? "so no container is started (STOKER_CONTAINER_FIREWALL=required)"
        : "so model containers can reach services of this host that listen on all its addresses";
      return `${why}, ${then}: run the agent as root on a host with iptables`;
    },
    async apply() {
      try {
        await firewall.apply();
      } catch (error) {
        const why = isRequired ? undefined : await firewall.whyNot();
        if (why === undefined)
          throw new DriverError(
            "start_failed",
            `The firewall of this host could not be set (${firstLine(error)}), so no container is started.`,
            { retryable: true, cause: error },
          );
        log.debug({ why }, "a container is started without a firewall towards its host");
      }
    },
    remove: firewall.remove,
  };
}

/** Exported for the tests, which look for what is left of them. */
export function modelRules(nodeName: string): Rules {
  const bridges = `${modelBridgePrefix(nodeName)}+`;
  const [through, host] = [`${chainPrefix(nodeName)}-THROUGH`, `${chainPrefix(nodeName)}-HOST`];
  const jumps = [
    { from: "FORWARD", match: ["-i", bridges], to: through },
    { from: "FORWARD", match: ["-o", bridges], to: through },
    { from: "INPUT", match: ["-i", bridges], to: host },
  ];
  const answers = `-A ${host} -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN`;
  const drops = [`-A ${through} -j DROP`, `-A ${host} -j DROP`];
  return {
    v4: ruleSet([through, host], [answers, ...drops], jumps),
    // These networks have no IPv6; link-local addresses are there all the same.
    v6: ruleSet([through, host], drops, jumps),
  };
}
