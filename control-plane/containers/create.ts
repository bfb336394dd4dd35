// POST /v1/containers: check, store the intent, reply. Placement, start and billing are those of every deployment.

import { type AccountId, type DeploymentId, randomId } from "../../proto/ids.ts";
import type { Act } from "../act.ts";
import type { Owner } from "../deployments/create.ts";
import { type FundsDeps, requireFunds } from "../deployments/dedicated-money.ts";
import { accountEnded, refuseSuspended } from "../deployments/errors.ts";
import { type DeploymentStore, type NewDeployment, singleInstance } from "../deployments/store.ts";
import type { HostView } from "../fleet/host.ts";
import { GpuLimitReached } from "../quotas/errors.ts";
import { type GpuDefaults, type GpuUse, requireGpus } from "../quotas/gpu-limits.ts";
import type { ServiceError } from "../service-error.ts";
import { offeredImages, parseGpuConfig } from "./availability.ts";
import { containerLimitReached, containerNameTaken, containerRefused, firstStartRefused } from "./errors.ts";
import { readFirstStart } from "./first-start.ts";

export interface ContainerRequest {
  readonly name: string;
  readonly gpuConfig: string;
  readonly image: string;
  /** `cloud_init_user_data`. */
  readonly userData: string;
}

export interface CreateContainerDeps extends FundsDeps {
  readonly store: Pick<DeploymentStore, "insert">;
  readonly snapshot: () => Promise<readonly HostView[]>;
  /** Lines of an authorized_keys file. */
  readonly sshKeys: (account: AccountId) => Promise<readonly string[]>;
  readonly seal: (account: AccountId, text: string) => Promise<Buffer>;
  readonly gpuDefaults: GpuDefaults;
}

/** Throws the errors of errors.ts, accountSuspended and noFunds. */
export async function createContainer(
  deps: CreateContainerDeps,
  owner: Owner,
  request: ContainerRequest,
  act: Act,
): Promise<DeploymentId> {
  const { account } = owner;
  refuseSuspended(owner);
  const { count, gpu } = parseGpuConfig(request.gpuConfig);
  const images = offeredImages(await deps.snapshot());
  if (!images.includes(request.image)) throw unknownImage(request.image, images);
  const firstStart = readFirstStart(request.userData);
  const sshKeys = await deps.sshKeys(account);
  if (sshKeys.length === 0 && !firstStart.mayOpen)
    throw firstStartRefused(
      "Your account has no SSH key and the user data contains none. Add a key with POST /v1/ssh_keys, then create the container.",
    );
  await requireFunds(deps, account, { modelName: request.name, gpu, numGpus: count, minInstances: 1 });
  const next: NewDeployment = {
    ...singleInstance,
    id: `container-${randomId(8)}` as DeploymentId,
    account,
    act,
    kind: "container",
    modelName: request.name,
    task: "rent-container",
    engine: "container",
    gpu,
    numGpus: count,
    weightsToken: await deps.seal(account, firstStart.script),
    container: { image: request.image, sshKeys },
  };
  const created = await deps.store.insert(next, (use) => checkGpus(use, next, deps.gpuDefaults));
  if (created === "account_gone") throw accountEnded();
  if (created === "name_taken") throw containerNameTaken(request.name);
  return created.id;
}

function checkGpus(use: GpuUse, { gpu, numGpus }: NewDeployment, defaults: GpuDefaults): void {
  try {
    requireGpus(use, gpu, numGpus, defaults);
  } catch (error) {
    // GPUs become free when another deployment ends, so the interface treats this as a rate limit.
    throw error instanceof GpuLimitReached ? containerLimitReached(error) : error;
  }
}

function unknownImage(image: string, images: readonly string[]): ServiceError {
  const there = images.length > 0 ? `Available: ${images.slice(0, 20).join(", ")}.` : "No host offers containers now.";
  return containerRefused(`container_image: ${image.slice(0, 100)} is not offered. ${there}`, {
    param: "container_image",
  });
}
