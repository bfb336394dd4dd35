// One bridge per rental, with a way out.
import type Docker from "dockerode";
import type { InstanceId } from "../../proto/ids.ts";
import { bridgePrefixOf, ensureBridge } from "./bridge-network.ts";

/** Prefix of every bridge of rentals on a machine, of all agents. */
export const anyBridge = "skr";

export const bridgePrefix = (nodeName: string): string => bridgePrefixOf(anyBridge, nodeName);

export function ensureRentalNetwork(
  docker: Docker,
  instanceId: InstanceId,
  { nodeName, subnet }: { readonly nodeName: string; readonly subnet: string },
  abortSignal: AbortSignal,
): Promise<void> {
  const full = `No free network of this host is left in ${subnet} for another rented container: its operator must give a larger or another range with STOKER_RENTAL_SUBNET.`;
  const facts = { nodeName, subnet, full, bridgePrefix: bridgePrefix(nodeName), isInternal: false };
  return ensureBridge(docker, instanceId, facts, abortSignal);
}
