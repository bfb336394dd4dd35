// Creates one bridge network per instance. The firewall, which recognises an instance by its bridge's name, limits what it reaches.
import { createHash } from "node:crypto";
import { isIPv4 } from "node:net";
import type Docker from "dockerode";
import type { InstanceId } from "../../proto/ids.ts";
import { DriverError } from "../reconcile/driver.ts";
import { saidBy, statusOf } from "./engine-fault.ts";
import { labelFilter, networkName, ownerLabels } from "./labels.ts";

const maxTries = 256;
const hashOf = (text: string, length: number) => createHash("sha256").update(text).digest("hex").slice(0, length);

/** Prefix of every rental bridge on a machine, of all agents. */
export const anyBridge = "skr";

/** Prefixes of the bridges of one node. An interface name has at most 15 characters. */
export const modelBridgePrefix = (nodeName: string): string => `skm${hashOf(nodeName, 4)}`;
export const bridgePrefix = (nodeName: string): string => `${anyBridge}${hashOf(nodeName, 4)}`;

interface BridgeFacts {
  readonly nodeName: string;
  readonly bridgePrefix: string;
  readonly subnet: string;
  /** Error text when the range has no free network. */
  readonly full: string;
  /** Driver options besides those that separate neighbours. */
  readonly options?: Readonly<Record<string, string>>;
  /** True: no route to other networks. */
  readonly isInternal: boolean;
}

async function ensureBridge(
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

const prefix = 28;
const size = 2 ** (32 - prefix);

/** All candidates for an instance's network in the order to try them: from a place of its own, so that tries rarely meet. */
export function* subnetsFor(range: string, instanceId: string): Generator<string> {
  const { base, count } = parseRange(range);
  const first = createHash("sha256").update(instanceId).digest().readUInt32BE(0) % count;
  for (let step = 0; step < count; step++) yield dotted(base + ((first + step) % count) * size);
}

/** Throws a sentence for the operator when the range is not an IPv4 network of at least one /28. */
export function parseRange(range: string): { base: number; count: number } {
  const [address = "", bits = ""] = range.split("/");
  const length = /^\d{1,2}$/.test(bits) ? Number(bits) : Number.NaN;
  if (!isIPv4(address) || !(length >= 8 && length <= prefix))
    throw new Error(`--container-subnet ${range} is no IPv4 network between /8 and /28, such as 10.231.0.0/16`);
  const number = address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
  const span = 2 ** (32 - length);
  return { base: number - (number % span), count: span / size };
}

function dotted(number: number): string {
  return `${[24, 16, 8, 0].map((shift) => Math.floor(number / 2 ** shift) % 256).join(".")}/${prefix}`;
}
