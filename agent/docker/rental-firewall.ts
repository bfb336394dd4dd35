// The firewall of rentals, in words for operators and customers: without it nothing is rented out.

import { specialNetworks } from "../../proto/special-networks.ts";
import { DriverError } from "../reconcile/driver.ts";
import { anyBridge, bridgePrefix } from "./bridge-network.ts";
import {
  chainPrefix,
  createFirewall,
  type Firewall,
  type FirewallOptions,
  firstLine,
  type Jump,
  type Rules,
  ruleSet,
} from "./firewall.ts";

/** `apply` throws DriverError when a rule cannot be set: nothing may be started then. */
export function createRentalFirewall(options: FirewallOptions & { readonly nodeName: string } & Denied): Firewall {
  const firewall = createFirewall(rulesFor(options.nodeName, options), options);
  return {
    remove: firewall.remove,
    async whyNot() {
      const why = await firewall.whyNot();
      return (
        why &&
        `rentals need a firewall between customers, and ${why}: run the agent as root on a host with iptables, and the Docker engine with its own iptables rules.`
      );
    },
    async apply() {
      try {
        await firewall.apply();
      } catch (error) {
        throw new DriverError(
          "start_failed",
          `The firewall of this host could not be set (${firstLine(error)}), so no rented container is started.`,
          { retryable: true, cause: error },
        );
      }
    },
  };
}

// Rules that limit rentals to the internet, as text for iptables-restore. Pure. They match a rental by its bridge, because it
// can forge an address but not the bridge.

/** IPv4 networks that are not the public internet. */
const notPublic = specialNetworks.map(({ network }) => network).filter((network) => !network.includes(":"));
const ofConnections = ["-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED"].join(" ");

/** Networks that are unreachable besides all that are not public. */
interface Denied {
  readonly denied?: readonly string[];
  readonly deniedPorts?: readonly number[];
}

export function rulesFor(nodeName: string, { denied = [], deniedPorts = [] }: Denied = {}): Rules {
  const bridges = `${bridgePrefix(nodeName)}+`;
  const name = chainPrefix(nodeName);
  const chains = [`${name}-OUT`, `${name}-IN`, `${name}-HOST`] as const;
  const [out, into, host] = chains;
  const v4 = [
    // Other rentals first, also by the address that this host publishes for them.
    `-A ${out} -o ${anyBridge}+ -j DROP`,
    `-A ${out} ${ofConnections} -j RETURN`,
    ...[...notPublic, ...denied].map((network) => `-A ${out} -d ${network} -j DROP`),
    ...deniedPorts.map((port) => `-A ${out} -p tcp --dport ${port} -j DROP`),
    // From outside only published ports, and replies.
    `-A ${into} ${ofConnections} -j RETURN`,
    `-A ${into} -p tcp -m conntrack --ctstate DNAT -j RETURN`,
    `-A ${into} -j DROP`,
    // The host may connect (to check SSH) and accepts no connection.
    `-A ${host} ${ofConnections} -j RETURN`,
    `-A ${host} -j DROP`,
  ];
  const jumps: readonly Jump[] = [
    { from: "FORWARD", match: ["-i", bridges], to: out },
    { from: "FORWARD", match: ["-o", bridges], to: into },
    { from: "INPUT", match: ["-i", bridges], to: host },
  ];
  return {
    // Only an engine that sets rules of its own publishes ports and lets containers out.
    v4: { ...ruleSet(chains, v4, jumps), needs: "DOCKER-USER" },
    // Rentals have no IPv6; link-local addresses are there all the same.
    v6: ruleSet(
      chains,
      chains.map((chain) => `-A ${chain} -j DROP`),
      jumps,
    ),
  };
}
