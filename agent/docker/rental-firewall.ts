// The firewall of rentals, in words for operators and customers: without it nothing is rented out.
import { DriverError } from "../reconcile/driver.ts";
import { createFirewall, type Firewall, type FirewallOptions, firstLine } from "./firewall.ts";
import { type Denied, rulesFor } from "./rental-rules.ts";

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
