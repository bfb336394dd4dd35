import { DeploymentStoreAway } from "../deployments/errors.ts";

/** A database that is away is an answer to the caller, not a defect. */
export async function answering<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Error && error.name === "DatabaseAway") throw new DeploymentStoreAway(error);
    throw error;
  }
}
