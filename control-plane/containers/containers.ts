// Rented containers as their customers use them.
import type { GpuType } from "../../proto/gpu.ts";
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import type { Act } from "../act.ts";
import { deleteDeployment } from "../deployments/change.ts";
import type { Owner } from "../deployments/create.ts";
import { DeploymentConflict } from "../deployments/errors.ts";
import { type GpuMinimums, maxNewByType } from "../deployments/place-reserve.ts";
import type { DeploymentStore } from "../deployments/store.ts";
import { type Offer, offeredImages, offers } from "./availability.ts";
import { type Container, isActive } from "./container.ts";
import { type ContainerRequest, type CreateContainerDeps, createContainer } from "./create.ts";
import { containerNameTaken, containerNotFound } from "./errors.ts";
import type { ContainerStore } from "./store.ts";

export interface ContainersDeps extends Omit<CreateContainerDeps, "store"> {
  readonly store: ContainerStore;
  readonly deployments: Pick<DeploymentStore, "insert" | "get" | "change">;
  readonly reserve: (gpu: GpuType) => Promise<{ readonly minimums: GpuMinimums }>;
}

type Account = Pick<Owner, "account">;

/** All throw the errors of errors.ts. `act`, `ip`: the actor and its address, for the audit log. */
export function createContainers(deps: ContainersDeps) {
  const { store, deployments } = deps;
  async function existing(account: AccountId, id: DeploymentId): Promise<Container> {
    const found = await store.get(id, account);
    if (!found) throw containerNotFound();
    return found;
  }

  return {
    /** Throws also accountSuspended, noFunds. */
    create: (owner: Owner, request: ContainerRequest, act: Act): Promise<DeploymentId> =>
      createContainer({ ...deps, store: deployments }, owner, request, act),
    async list({ account }: Account, state: "active" | "inactive"): Promise<readonly Container[]> {
      const all = await store.list(account);
      return all.filter((one) => isActive(one) === (state === "active"));
    },
    get: ({ account }: Account, id: DeploymentId): Promise<Container> => existing(account, id),
    async rename({ account }: Account, id: DeploymentId, name: string): Promise<Container> {
      const outcome = await store.rename(id, account, name);
      if (outcome === "name_taken") throw containerNameTaken(name);
      if (outcome === "not_found") throw containerNotFound();
      return existing(account, id);
    },
    async remove({ account }: Account, id: DeploymentId, act: Act): Promise<void> {
      const found = await existing(account, id);
      if (found.status === "deleted") throw containerNotFound();
      await deleteDeployment(deployments, account, id, "container", act).catch((error) => {
        // Another request deleted it first.
        throw error instanceof DeploymentConflict ? containerNotFound() : error;
      });
    },
    async offered({
      account,
    }: Account): Promise<{ readonly images: readonly string[]; readonly gpus: readonly Offer[] }> {
      const hosts = await deps.snapshot();
      const max = await maxNewByType(hosts, account, deps.reserve);
      return { images: offeredImages(hosts), gpus: offers(hosts, await store.hourRates(), (gpu) => max.get(gpu)) };
    },
  };
}

export type Containers = ReturnType<typeof createContainers>;
