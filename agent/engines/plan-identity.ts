import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { DeploymentId, InstanceId } from "../../proto/ids.ts";

/** Instance and deployment of a plan. The control plane creates the ids. */
export function identityOf(spec: InstanceSpec__Output) {
  return {
    instanceId: spec.instanceId as InstanceId,
    deployId: spec.deployId as DeploymentId,
    generation: Number(spec.generation),
  };
}
