// Earlier arguments of a deployment, to list and to return to.
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import { getDeployment } from "./change.ts";
import { DeploymentConflict, DeploymentNotFound } from "./errors.ts";
import { ownArgs } from "./standard-args.ts";
import type { DeploymentStore, DeploymentVersion } from "./store.ts";

type Store = Pick<DeploymentStore, "get" | "versions">;

/** The newest first; arguments without those that the standard settings produce. Throws DeploymentNotFound. */
export async function deploymentVersions(
  store: Store,
  account: AccountId,
  id: DeploymentId,
): Promise<readonly DeploymentVersion[]> {
  const { engine } = await getDeployment(store, account, id);
  const found = await store.versions(id, account);
  if (!found) throw new DeploymentNotFound();
  return found.map((one) => ({ ...one, extraArgs: ownArgs({ ...one, engine }) }));
}

/** `version`: default the newest one before the present one. Throws DeploymentNotFound, DeploymentConflict when there is none. */
export async function versionToReturnTo(
  store: Store,
  account: AccountId,
  id: DeploymentId,
  version: number | undefined,
): Promise<DeploymentVersion> {
  const versions = await deploymentVersions(store, account, id);
  const present = versions.find(({ isDesired }) => isDesired);
  const found =
    version === undefined
      ? versions.find((one) => one.version < (present?.version ?? 0))
      : versions.find((one) => one.version === version);
  if (found) return found;
  throw new DeploymentConflict(
    version === undefined
      ? "This deployment has no earlier version."
      : `This deployment has no version ${version}. GET /deploy/ID/versions lists those it has.`,
  );
}
