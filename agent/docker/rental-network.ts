// One bridge per rental, with a way out. What it must not reach is the firewall's part, which knows it by the bridge's name.
import { createHash } from "node:crypto";
import type Docker from "dockerode";
import type { InstanceId } from "../../proto/ids.ts";
import { DriverError } from "../reconcile/driver.ts";
import { saidBy, statusOf } from "./engine-fault.ts";
import { networkName, ownerLabels } from "./labels.ts";
import { subnetsFor } from "./subnets.ts";

const maxTries = 256;
const hashOf = (text: string, length: number) => createHash("sha256").update(text).digest("hex").slice(0, length);

/** Of every bridge of a node's rentals; an interface's name has 15 characters at most. */
export function bridgePrefix(nodeName: string): string {
  return `skr${hashOf(nodeName, 4)}`;
}

/** Of every bridge of rentals on a machine, whoever's. */
export const anyBridge = "skr";

/** Makes the network where it is not there yet. */
export async function ensureRentalNetwork(
  docker: Docker,
  instanceId: InstanceId,
  facts: { readonly nodeName: string; readonly subnet: string },
  abortSignal: AbortSignal,
): Promise<void> {
  let tries = 0;
  for (const subnet of subnetsFor(facts.subnet, instanceId)) {
    if (tries++ >= maxTries) break;
    try {
      await docker.createNetwork({
        Name: networkName(instanceId),
        CheckDuplicate: true,
        Driver: "bridge",
        EnableIPv6: false,
        IPAM: { Driver: "default", Config: [{ Subnet: subnet }] },
        Options: {
          "com.docker.network.bridge.name": `${bridgePrefix(facts.nodeName)}${hashOf(instanceId, 8)}`,
          "com.docker.network.bridge.enable_icc": "false",
        },
        Labels: ownerLabels(facts.nodeName, instanceId),
        abortSignal,
      });
      return;
    } catch (error) {
      if (statusOf(error) === 409) return;
      if (!/overlap/i.test(saidBy(error))) throw error;
    }
  }
  const text = `No free network of this host is left in ${facts.subnet} for another rented container: its operator must give a larger or another range with STOKER_RENTAL_SUBNET.`;
  throw new DriverError("start_failed", text, { retryable: true });
}
