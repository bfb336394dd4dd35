// One bridge per instance of any kind. What it must not reach is the firewall's part, which knows it by the bridge's name.
import { createHash } from "node:crypto";
import type Docker from "dockerode";
import type { InstanceId } from "../../proto/ids.ts";
import { DriverError } from "../reconcile/driver.ts";
import { saidBy, statusOf } from "./engine-fault.ts";
import { networkName, ownerLabels } from "./labels.ts";
import { subnetsFor } from "./subnets.ts";

const maxTries = 256;
const hashOf = (text: string, length: number) => createHash("sha256").update(text).digest("hex").slice(0, length);

/** Prefix of every bridge of one kind and node; an interface's name has at most 15 characters. */
export const bridgePrefixOf = (kind: string, nodeName: string): string => `${kind}${hashOf(nodeName, 4)}`;

export interface BridgeFacts {
  readonly nodeName: string;
  readonly bridgePrefix: string;
  readonly subnet: string;
  /** Said when the range holds no free network. */
  readonly full: string;
  /** Beside those that forbid neighbours. */
  readonly options?: Readonly<Record<string, string>>;
  /** Without a way out. */
  readonly isInternal: boolean;
}

/** Makes the network where it is not there yet. */
export async function ensureBridge(
  docker: Docker,
  instanceId: InstanceId,
  facts: BridgeFacts,
  abortSignal: AbortSignal,
): Promise<void> {
  let tries = 0;
  let takenNames = 0;
  for (const subnet of subnetsFor(facts.subnet, instanceId)) {
    if (tries++ >= maxTries) break;
    try {
      await docker.createNetwork({
        Name: networkName(instanceId),
        CheckDuplicate: true,
        Driver: "bridge",
        Internal: facts.isInternal,
        EnableIPv6: false,
        IPAM: { Driver: "default", Config: [{ Subnet: subnet }] },
        Options: {
          "com.docker.network.bridge.name": `${facts.bridgePrefix}${hashOf(`${instanceId}${takenNames || ""}`, 8)}`,
          "com.docker.network.bridge.enable_icc": "false",
          ...facts.options,
        },
        Labels: ownerLabels(facts.nodeName, instanceId),
        abortSignal,
      });
      return;
    } catch (error) {
      if (statusOf(error) === 409) return;
      // An engine that ended while it created the network keeps the bridge's name and shows no network of it.
      if (/same bridge name/i.test(saidBy(error))) takenNames += 1;
      // Taken by another network of this engine, ours or not: the engine alone decides, so two agents cannot collide.
      else if (!/overlap/i.test(saidBy(error))) throw error;
    }
  }
  throw new DriverError("start_failed", facts.full, { retryable: true });
}
