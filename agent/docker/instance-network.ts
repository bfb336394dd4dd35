// One bridge per instance: no way out, no neighbours. The host reaches the container by its address, and nothing else does.
import type Docker from "dockerode";
import type { InstanceId } from "../../proto/ids.ts";
import { bridgePrefixOf, ensureBridge } from "./bridge-network.ts";
import { statusOf } from "./engine-fault.ts";
import { labelFilter } from "./labels.ts";

export const modelBridgePrefix = (nodeName: string): string => bridgePrefixOf("skm", nodeName);

export function ensureNetwork(
  docker: Docker,
  instanceId: InstanceId,
  { nodeName, subnet }: { readonly nodeName: string; readonly subnet: string },
  abortSignal: AbortSignal,
): Promise<void> {
  const full = `No free network of this host is left in ${subnet} for another instance: give the agent a larger or another range with --container-subnet.`;
  const options = { "com.docker.network.bridge.enable_ip_masquerade": "false" };
  const facts = { nodeName, subnet, full, options, bridgePrefix: modelBridgePrefix(nodeName), isInternal: true };
  return ensureBridge(docker, instanceId, facts, abortSignal);
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
