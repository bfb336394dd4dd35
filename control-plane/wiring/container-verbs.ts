// What the HTTP edge may ask of rented containers, with its ports filled in.
import type { AccountId } from "../../proto/ids.ts";
import { offeredImages, offers } from "../containers/availability.ts";
import { isActive } from "../containers/container.ts";
import { createContainer } from "../containers/create.ts";
import { ContainerNameTaken, ContainerNotFound } from "../containers/errors.ts";
import { deleteDeployment } from "../deployments/change.ts";
import type { FundsDeps } from "../deployments/dedicated-money.ts";
import { DeploymentConflict } from "../deployments/errors.ts";
import { mostNewByType } from "../deployments/place-reserve.ts";
import type { ContainerVerbs } from "../http/verbs.ts";
import type { GpuDefaults } from "../quotas/gpu-limits.ts";
import { createContainerStore } from "../store/containers-store.ts";
import type { OpenDatabase } from "../store/database.ts";
import { createReserveStore } from "../store/gpu-reserve-store.ts";
import { createPeopleStore } from "../store/people-store.ts";
import type { Fleet } from "./fleet.ts";
import type { HubTokens } from "./seals.ts";

export function createContainerVerbs(
  deps: FundsDeps & {
    readonly db: OpenDatabase["db"];
    readonly fleet: Pick<Fleet, "deploymentStore" | "snapshot">;
    readonly tokens: HubTokens;
    readonly gpuDefaults: GpuDefaults;
  },
): ContainerVerbs {
  const { fleet, db } = deps;
  const store = createContainerStore(db);
  const { reserve } = createReserveStore(db);
  const people = createPeopleStore(db);
  const createDeps = {
    funds: deps.funds,
    firstMinutes: deps.firstMinutes,
    gpuDefaults: deps.gpuDefaults,
    store: fleet.deploymentStore,
    snapshot: fleet.snapshot,
    seal: deps.tokens.seal,
    sshKeys: async (account: AccountId) => (await people.sshKeys(account)).map(({ key }) => key),
  };
  const existing = async (account: AccountId, id: Parameters<typeof store.get>[0]) => {
    const found = await store.get(id, account);
    if (!found) throw new ContainerNotFound();
    return found;
  };

  return {
    create: (caller, request, ip) => createContainer(createDeps, caller, request, ip),
    async list({ account }, state) {
      const all = await store.list(account);
      return all.filter((one) => isActive(one) === (state === "active"));
    },
    get: ({ account }, id) => existing(account, id),
    async rename({ account }, id, name) {
      const outcome = await store.rename(id, account, name);
      if (outcome === "name_taken") throw new ContainerNameTaken(name);
      if (outcome === "not_found") throw new ContainerNotFound();
      return existing(account, id);
    },
    async remove({ account }, id, ip) {
      const found = await existing(account, id);
      if (found.status === "deleted") throw new ContainerNotFound();
      await deleteDeployment(fleet.deploymentStore, account, id, "container", ip).catch((error) => {
        // Somebody else was faster.
        throw error instanceof DeploymentConflict ? new ContainerNotFound() : error;
      });
    },
    async offered({ account }) {
      const hosts = await fleet.snapshot();
      const most = await mostNewByType(hosts, account, reserve);
      return { images: offeredImages(hosts), gpus: offers(hosts, await store.hourRates(), (gpu) => most.get(gpu)) };
    },
  };
}
