// POST /v1/containers: check, write the intent, reply. Placing, starting and billing are what every deployment has.
import { type AccountId, type DeploymentId, randomId } from "../../proto/ids.ts";
import type { Owner } from "../deployments/create.ts";
import { type FundsDeps, requireFunds } from "../deployments/dedicated-money.ts";
import { AccountEnded, AccountSuspended } from "../deployments/errors.ts";
import type { DeploymentStore, NewDeployment } from "../deployments/store.ts";
import type { HostView } from "../fleet/host.ts";
import { GpuLimitReached } from "../quotas/errors.ts";
import { type GpuDefaults, type GpuUse, requireGpus } from "../quotas/gpu-limits.ts";
import { offeredImages } from "./availability.ts";
import { ContainerLimitReached, ContainerNameTaken, ContainerRefused, FirstStartRefused } from "./errors.ts";
import { readFirstStart } from "./first-start.ts";
import { parseGpuConfig } from "./gpu-config.ts";

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

/** Throws the errors of errors.ts, AccountSuspended and NoFunds. */
export async function createContainer(
  deps: CreateContainerDeps,
  owner: Owner,
  request: ContainerRequest,
  /** Of who asks, for the audit log. */
  ip: string,
): Promise<DeploymentId> {
  const { account } = owner;
  if (owner.suspendReason !== null) throw new AccountSuspended(owner.suspendReason);
  const { count, gpu } = parseGpuConfig(request.gpuConfig);
  const images = offeredImages(await deps.snapshot());
  if (!images.includes(request.image)) throw unknownImage(request.image, images);
  const firstStart = readFirstStart(request.userData);
  const sshKeys = await deps.sshKeys(account);
  if (sshKeys.length === 0 && !firstStart.mayOpen)
    throw new FirstStartRefused(
      "Nobody could log in: your account has no SSH key and the user data brings none. Add a key with POST /v1/ssh_keys, then create the container.",
    );
  await requireFunds(deps, account, { modelName: request.name, gpu, numGpus: count, minInstances: 1 });
  const next: NewDeployment = {
    id: `container-${randomId(8)}` as DeploymentId,
    account,
    ip,
    kind: "container",
    modelName: request.name,
    version: "",
    task: "rent-container",
    type: "legacy",
    engine: "container",
    gpu,
    numGpus: count,
    maxBatchSize: 1,
    minInstances: 1,
    maxInstances: 1,
    weights: { repo: "", revision: "" },
    weightsToken: await deps.seal(account, firstStart.script),
    container: { image: request.image, sshKeys },
    extraArgs: [],
    externalUrl: null,
    contextLength: 0,
    memoryBytes: 0,
  };
  const created = await deps.store.insert(next, (use) => checkGpus(use, next, deps.gpuDefaults));
  if (created === "account_gone") throw new AccountEnded();
  if (created === "name_taken") throw new ContainerNameTaken(request.name);
  return created.id;
}

function checkGpus(use: GpuUse, { gpu, numGpus }: NewDeployment, defaults: GpuDefaults): void {
  try {
    requireGpus(use, gpu, numGpus, defaults);
  } catch (error) {
    // It may fit when another of theirs has gone, so the interface answers as for any limit of use.
    throw error instanceof GpuLimitReached ? new ContainerLimitReached(error) : error;
  }
}

function unknownImage(image: string, images: readonly string[]): ContainerRefused {
  const there = images.length > 0 ? `There are ${images.slice(0, 20).join(", ")}.` : "No host offers containers now.";
  return new ContainerRefused(`container_image: ${image.slice(0, 100)} is not offered. ${there}`, {
    param: "container_image",
  });
}
