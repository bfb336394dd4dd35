// Labels hold the owner of a container and all facts that a later agent needs. Containers without them are never changed.
import type { DeploymentId, InstanceId } from "../../proto/ids.ts";
import type { ContainerPlan } from "../reconcile/driver.ts";

const node = "stoker.node";
const instance = "stoker.instance";

interface Owned {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  readonly generation: number;
  readonly port: number;
  /** Hash of what the container was made from. */
  readonly plan: string;
  readonly claimedGpus: readonly string[];
}

export function ownerLabels(nodeName: string, instanceId: InstanceId): Record<string, string> {
  return { [node]: nodeName, [instance]: instanceId };
}

export function containerLabels(nodeName: string, plan: ContainerPlan, planHash: string): Record<string, string> {
  return {
    ...ownerLabels(nodeName, plan.instanceId),
    "stoker.deploy": plan.deployId,
    "stoker.generation": String(plan.generation),
    "stoker.port": String(plan.port),
    "stoker.plan": planHash,
    "stoker.gpus": (plan.claimedGpus ?? plan.gpuUuids).join(","),
  };
}

/** Undefined if a label is missing or invalid: such a container is not ours. */
export function ownedOf(labels: Readonly<Record<string, string>>): Owned | undefined {
  const [instanceId, deployId, plan] = [labels[instance], labels["stoker.deploy"], labels["stoker.plan"]];
  const [generation, port] = [Number(labels["stoker.generation"]), Number(labels["stoker.port"])];
  if (!instanceId || !deployId || plan === undefined || !Number.isInteger(generation) || !Number.isInteger(port))
    return undefined;
  const claimedGpus = (labels["stoker.gpus"] ?? "").split(",").filter((uuid) => uuid !== "");
  return {
    instanceId: instanceId as InstanceId,
    deployId: deployId as DeploymentId,
    generation,
    port,
    plan,
    claimedGpus,
  };
}

export function labelFilter(nodeName: string, instanceId?: InstanceId): { label: string[] } {
  return { label: [`${node}=${nodeName}`, ...(instanceId === undefined ? [] : [`${instance}=${instanceId}`])] };
}

export function containerName(plan: Pick<ContainerPlan, "instanceId" | "generation">): string {
  return `stoker-${plan.instanceId}-g${plan.generation}`;
}

export function networkName(instanceId: InstanceId): string {
  return `stoker-${instanceId}`;
}
