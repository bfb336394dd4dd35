import type { Container } from "../../control-plane/containers/container.ts";
import type { Containers } from "../../control-plane/containers/containers.ts";
import { containerNotFound } from "../../control-plane/containers/errors.ts";
import type { AccountId, DeploymentId } from "../../proto/ids.ts";

export function container(change: Partial<Container> = {}): Container {
  return {
    id: "container-4fd1AbCd" as DeploymentId,
    name: "my-container",
    status: "deployed",
    failReason: "",
    image: "stoker-cont-ubuntu-torch:latest",
    gpu: "B200-180GB",
    gpus: 1,
    hourRate: 2_790_000_000n,
    createdAtMs: 1_786_000_000_000,
    changedAtMs: 1_786_000_090_000,
    deletedAtMs: null,
    sshAddress: "203.0.113.7",
    sshPort: 22_017,
    isOnHost: true,
    ...change,
  };
}

/** One running container of one account. */
export function fakeContainers(owner: AccountId): Containers {
  const one = container();
  const own: Containers["get"] = (caller, id) =>
    caller.account === owner && id === one.id ? Promise.resolve(one) : Promise.reject(containerNotFound());
  return {
    create: () => Promise.resolve(one.id),
    list: ({ account }, state) => Promise.resolve(account === owner && state === "active" ? [one] : []),
    get: own,
    rename: async (caller, id, name) => ({ ...(await own(caller, id)), name }),
    remove: async (caller, id) => void (await own(caller, id)),
    offered: () =>
      Promise.resolve({
        images: [one.image],
        gpus: [{ gpuConfig: "1xB200-180GB", hourRate: one.hourRate, isAvailable: true }],
      }),
  };
}
