import type Docker from "dockerode";
import type { ContainerCreateOptions, ContainerInspectInfo } from "dockerode";
import type { InstanceId } from "../../proto/ids.ts";
import type { ContainerPlan, Observed } from "../reconcile/driver.ts";

/** How a driver's containers are made and what they hang on: models and rentals differ in nothing else. */
export interface ContainerProfile {
  /** Asked right before the container is made; its labels make it ours. */
  config(plan: ContainerPlan, docker: Docker, signal: AbortSignal): Promise<ContainerCreateOptions>;
  /** What must be there before the container starts. Idempotent. */
  prepare(docker: Docker, id: InstanceId, signal: AbortSignal): Promise<void>;
  /** What `prepare` made, once the container is gone. Idempotent. */
  cleanUp(docker: Docker, id: InstanceId, signal: AbortSignal): Promise<void>;
  /** At every look, with all that runs: what must hold as long as anything does. Cheap. */
  uphold?(ids: readonly InstanceId[], docker: Docker, signal: AbortSignal): Promise<void>;
  /** What only this profile knows of a container that runs. */
  seen(observed: Observed, info: ContainerInspectInfo): Observed;
}
