// Rented containers as their customers use them.
import type { GpuType } from "../../proto/gpu.ts";
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
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

/** All throw the errors of errors.ts. `ip`: the client's, for the audit log. */
export interface Containers {
  /** Throws also accountSuspended, noFunds. */
  create(owner: Owner, request: ContainerRequest, ip: string): Promise<DeploymentId>;
  list(caller: Account, state: "active" | "inactive"): Promise<readonly Container[]>;
  get(caller: Account, id: DeploymentId): Promise<Container>;
  rename(caller: Account, id: DeploymentId, name: string): Promise<Container>;
  remove(caller: Account, id: DeploymentId, ip: string): Promise<void>;
  offered(caller: Account): Promise<{ readonly images: readonly string[]; readonly gpus: readonly Offer[] }>;
}

export function createContainers(deps: ContainersDeps): Containers {
  const { store, deployments } = deps;
  async function existing(account: AccountId, id: DeploymentId): Promise<Container> {
    const found = await store.get(id, account);
    if (!found) throw containerNotFound();
    return found;
  }

  return {
    create: (owner, request, ip) => createContainer({ ...deps, store: deployments }, owner, request, ip),
    async list({ account }, state) {
      const all = await store.list(account);
      return all.filter((one) => isActive(one) === (state === "active"));
    },
    get: ({ account }, id) => existing(account, id),
    async rename({ account }, id, name) {
      const outcome = await store.rename(id, account, name);
      if (outcome === "name_taken") throw containerNameTaken(name);
      if (outcome === "not_found") throw containerNotFound();
      return existing(account, id);
    },
    async remove({ account }, id, ip) {
      const found = await existing(account, id);
      if (found.status === "deleted") throw containerNotFound();
      await deleteDeployment(deployments, account, id, "container", ip).catch((error) => {
        // Another request deleted it first.
        throw error instanceof DeploymentConflict ? containerNotFound() : error;
      });
    },
    async offered({ account }) {
      const hosts = await deps.snapshot();
      const most = await maxNewByType(hosts, account, deps.reserve);
      return { images: offeredImages(hosts), gpus: offers(hosts, await store.hourRates(), (gpu) => most.get(gpu)) };
    },
  };
}
