// A rented container as its customer sees it: a deployment of kind container, in the terms of the interface.
import type { GpuType } from "../../proto/gpu.ts";
import type { DeploymentId } from "../../proto/ids.ts";
import { unreachable } from "../../proto/unreachable.ts";
import type { DeploymentStatus } from "../deployments/deployment.ts";

export type ContainerState = "creating" | "starting" | "running" | "shutting_down" | "failed" | "deleted";

export interface Container {
  readonly id: DeploymentId;
  readonly name: string;
  readonly status: DeploymentStatus;
  readonly failReason: string;
  readonly image: string;
  readonly gpu: GpuType;
  readonly gpus: number;
  /** For all its GPUs now, in nano-USD; 0n without a price. */
  readonly hourRate: bigint;
  readonly createdAtMs: number;
  /** Time of the last status change. */
  readonly changedAtMs: number;
  readonly deletedAtMs: number | null;
  /** Address of its SSH server; empty and 0 while unreachable. */
  readonly sshAddress: string;
  readonly sshPort: number;
  /** True while any part of it is on a host. */
  readonly isOnHost: boolean;
}

export function stateOf({ status, isOnHost }: Pick<Container, "status" | "isOnHost">): ContainerState {
  switch (status) {
    case "initializing":
      return "creating";
    case "downloading":
    case "deploying":
      return "starting";
    case "deployed":
    case "updating":
      return "running";
    case "stopping":
      return "shutting_down";
    // Stopped for lack of funds; its data was deleted.
    case "stopped":
    case "failed":
      return "failed";
    case "deleted":
      return isOnHost ? "shutting_down" : "deleted";
    default:
      return unreachable(status);
  }
}

export function isActive(container: Pick<Container, "status" | "isOnHost">): boolean {
  const state = stateOf(container);
  return state !== "failed" && state !== "deleted";
}
