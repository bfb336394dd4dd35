import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { DeploymentId, InstanceId } from "../../proto/ids.ts";

/** Whose plan it is. Ids come from the control plane, which makes them. */
export function identityOf(spec: InstanceSpec__Output) {
  return {
    instanceId: spec.instanceId as InstanceId,
    deployId: spec.deployId as DeploymentId,
    generation: Number(spec.generation),
  };
}
