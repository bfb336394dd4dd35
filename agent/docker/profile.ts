import type Docker from "dockerode";
import type { ContainerCreateOptions, ContainerInspectInfo } from "dockerode";
import type { InstanceId } from "../../proto/ids.ts";
import type { ContainerPlan, Observed } from "../reconcile/driver.ts";

/** Creation and dependencies of a driver's containers: models and rentals differ only in these. */
export interface ContainerProfile {
  /** User of shells in the container; default: the image's own. */
  readonly shellUser?: string;
  /** Asked right before the container is made; its labels make it ours. */
  config(plan: ContainerPlan, docker: Docker, signal: AbortSignal): Promise<ContainerCreateOptions>;
  /** Creates what the container needs before its start. Idempotent. */
  prepare(docker: Docker, id: InstanceId, signal: AbortSignal): Promise<void>;
  /** Removes what `prepare` created, once the container is gone. Idempotent. */
  cleanUp(docker: Docker, id: InstanceId, signal: AbortSignal): Promise<void>;
  /** At every look, with all that runs: what must hold as long as anything does. Cheap. */
  uphold?(ids: readonly InstanceId[], docker: Docker, signal: AbortSignal): Promise<void>;
  /** Facts of a running container that only this profile knows. */
  seen(observed: Observed, info: ContainerInspectInfo): Observed;
}
