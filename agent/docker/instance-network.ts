// One bridge per instance: no way out, no neighbours. The host reaches the container by its address, and nothing else does.
// That the container does not reach the host is the firewall's part, which knows it by the bridge's name.
import { createHash } from "node:crypto";
import type Docker from "dockerode";
import type { InstanceId } from "../../proto/ids.ts";
import { DriverError } from "../reconcile/driver.ts";
import { saidBy, statusOf } from "./engine-fault.ts";
import { labelFilter, networkName, ownerLabels } from "./labels.ts";
import { subnetsFor } from "./subnets.ts";

const maxTries = 256;
const hashOf = (text: string, length: number) => createHash("sha256").update(text).digest("hex").slice(0, length);

/** Of every bridge of a node's model servers; an interface's name has 15 characters at most. */
export function modelBridgePrefix(nodeName: string): string {
  return `skm${hashOf(nodeName, 4)}`;
}

/** Makes the network where it is not there yet. */
export async function ensureNetwork(
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
        Internal: true,
        EnableIPv6: false,
        IPAM: { Driver: "default", Config: [{ Subnet: subnet }] },
        Options: {
          "com.docker.network.bridge.name": `${modelBridgePrefix(facts.nodeName)}${hashOf(instanceId, 8)}`,
          "com.docker.network.bridge.enable_icc": "false",
          "com.docker.network.bridge.enable_ip_masquerade": "false",
        },
        Labels: ownerLabels(facts.nodeName, instanceId),
        abortSignal,
      });
      return;
    } catch (error) {
      if (statusOf(error) === 409) return;
      // Taken by another network of this engine, ours or not: the engine alone decides, so two agents cannot collide.
      if (!/overlap/i.test(saidBy(error))) throw error;
    }
  }
  const text = `No free network of this host is left in ${facts.subnet} for another instance: give the agent a larger or another range with --container-subnet.`;
  throw new DriverError("start_failed", text, { retryable: true });
}

/** No-op when it is gone, or another agent's. */
export async function removeNetwork(
  docker: Docker,
  nodeName: string,
  instanceId: InstanceId,
  abortSignal: AbortSignal,
): Promise<void> {
  const filters = labelFilter(nodeName, instanceId);
  for (const { Id } of await docker.listNetworks({ filters, abortSignal }))
    await docker
      .getNetwork(Id)
      .remove({ abortSignal })
      .catch((error: unknown) => {
        if (statusOf(error) !== 404) throw error;
      });
}
