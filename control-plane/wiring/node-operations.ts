import { DeploymentStoreAway } from "../deployments/errors.ts";
import type { HostOperations } from "../fleet/host-operations.ts";

/** A database that is away is an answer to the caller, not a defect. */
export function answeringOperations(operations: HostOperations): HostOperations {
  const answering = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      if (error instanceof Error && error.name === "DatabaseAway") throw new DeploymentStoreAway(error);
      throw error;
    }
  };
  return {
    cordon: (node, act) => answering(() => operations.cordon(node, act)),
    end: (node, act) => answering(() => operations.end(node, act)),
    drain: (node, deadlineMs, act) => answering(() => operations.drain(node, deadlineMs, act)),
    progress: (node) => answering(() => operations.progress(node)),
    remove: (node, act) => answering(() => operations.remove(node, act)),
    rebalance: () => answering(() => operations.rebalance()),
  };
}
