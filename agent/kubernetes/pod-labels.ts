// Labels and annotations hold the owner of a Pod and all facts that a later agent needs. Pods without them are never changed.
import { createHash } from "node:crypto";
import type { V1ObjectMeta } from "@kubernetes/client-node";
import type { DeploymentId, InstanceId } from "../../proto/ids.ts";
import type { ContainerPlan } from "../reconcile/driver.ts";

/** Ids may hold characters that neither labels nor names take, so these are hashes; the ids themselves are annotations. */
const node = "stoker.node";
const instance = "stoker.instance";

export interface OwnedPod {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  readonly generation: number;
  readonly port: number;
  readonly claimedGpus: readonly string[];
}

const hashOf = (text: string) => createHash("sha256").update(text).digest("hex").slice(0, 32);

/**
 * Contains neither host nor generation: the API server admits one object of a name, so an instance never has a second Pod in a
 * namespace, even if two agents start it.
 */
export const podNameOf = (id: InstanceId): string => `stoker-${hashOf(id)}`;

export const leaseNameOf = (hostId: string): string => `stoker-agent-${hashOf(hostId)}`;

/** All Pods of one agent. */
export const ownSelector = (hostId: string): string => `${node}=${hashOf(hostId)}`;

export const isOwn = (hostId: string, meta: V1ObjectMeta | undefined): boolean =>
  meta?.labels?.[node] === hashOf(hostId);

/** The component is what network policies select. */
export function labelsOf(hostId: string, id: InstanceId): Record<string, string> {
  return {
    "app.kubernetes.io/name": "stoker",
    "app.kubernetes.io/component": "model-server",
    [node]: hashOf(hostId),
    [instance]: hashOf(id),
  };
}

export function annotationsOf(plan: ContainerPlan): Record<string, string> {
  return {
    "stoker.instance": plan.instanceId,
    "stoker.deploy": plan.deployId,
    "stoker.generation": String(plan.generation),
    "stoker.port": String(plan.port),
    "stoker.gpus": (plan.claimedGpus ?? plan.gpuUuids).join(","),
  };
}

/** Undefined if one is missing or invalid, or is not that of the name: such a Pod is not ours. */
export function ownedOf(meta: V1ObjectMeta | undefined): OwnedPod | undefined {
  const kept = meta?.annotations ?? {};
  const [instanceId, deployId] = [kept["stoker.instance"] as InstanceId | undefined, kept["stoker.deploy"]];
  const [generation, port] = [Number(kept["stoker.generation"]), Number(kept["stoker.port"])];
  if (!instanceId || !deployId || !Number.isInteger(generation) || !Number.isInteger(port)) return undefined;
  if (meta?.name !== podNameOf(instanceId)) return undefined;
  const claimedGpus = (kept["stoker.gpus"] ?? "").split(",").filter((uuid) => uuid !== "");
  return { instanceId, deployId: deployId as DeploymentId, generation, port, claimedGpus };
}
