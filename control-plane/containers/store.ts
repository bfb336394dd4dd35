// Storage of containers beyond their deployments. Implemented by store/containers-store.ts.
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import type { Container } from "./container.ts";

export type { Container };

export interface ContainerStore {
  get(id: DeploymentId, account: AccountId): Promise<Container | undefined>;
  /** Newest first, deleted ones included. */
  list(account: AccountId): Promise<readonly Container[]>;
  rename(id: DeploymentId, account: AccountId, name: string): Promise<"renamed" | "not_found" | "name_taken">;
  /** Nano-USD per GPU and hour for each GPU type that has a price now, awake by default. */
  hourRates(kind?: "gpu" | "gpu_asleep"): Promise<ReadonlyMap<string, bigint>>;
}
