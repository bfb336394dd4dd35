// PUT, DELETE, stop and start of a deployment: each one guarded write; loops do the rest.
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import { type GpuDefaults, requireGpus } from "../quotas/gpu-limits.ts";
import { type FundsDeps, requireFunds } from "./dedicated-money.ts";
import type { Deployment, DeploymentKind, DeploymentStatus } from "./deployment.ts";
import { DeploymentConflict, DeploymentNotFound, DeploymentRefused, WrongDeploymentState } from "./errors.ts";
import { checkExtraArgs, contextLengthOf } from "./extra-args.ts";
import { isWanted, targetOf } from "./lifecycle.ts";
import { ownArgs, type StandardArgs, withStandardArgs } from "./standard-args.ts";
import type { Change, DeploymentStore, GpuCheck } from "./store.ts";

type Store = Pick<DeploymentStore, "get" | "change">;

export interface SettingsUpdate {
  readonly minInstances?: number;
  readonly maxInstances?: number;
  /** Seconds without a request until it sleeps; null: the default. Only with min_instances 0. */
  readonly inactiveShutdown?: number | null;
  /** Replaces the whole set. Instances are replaced one after the other, beside the old ones where there is room. */
  readonly extraArgs?: readonly string[];
  /** Likewise, beside the other. */
  readonly standardArgs?: StandardArgs;
}

export async function getDeployment(
  store: Pick<DeploymentStore, "get">,
  account: AccountId,
  id: DeploymentId,
  /** Those of another kind are not found. */
  kind: DeploymentKind = "model",
): Promise<Deployment> {
  const found = await store.get(id, account);
  if (found?.kind !== kind) throw new DeploymentNotFound();
  return found;
}

/** Throws NoFunds when more instances are to run at once than the account can hold the first minutes of. */
export async function updateDeployment(
  store: Store,
  account: AccountId,
  id: DeploymentId,
  update: SettingsUpdate,
  gpus: GpuDefaults,
  funds?: FundsDeps,
): Promise<void> {
  if (funds && update.minInstances !== undefined) {
    const now = await getDeployment(store, account, id);
    const more = isWanted(now.status) ? update.minInstances - targetOf(now) : 0;
    if (more > 0) await requireFunds(funds, account, { ...now, minInstances: more });
  }
  await changeFrom(store, account, id, gpus, (now) => {
    if (now.status === "deleted") throw new DeploymentConflict("The deployment was deleted; create a new one.");
    if (now.status === "failed" || now.status === "stopping")
      throw new WrongDeploymentState(`A deployment that is ${now.status} cannot be changed.`);
    const minInstances = update.minInstances ?? now.minInstances;
    const maxInstances = update.maxInstances ?? now.maxInstances;
    if (minInstances > maxInstances)
      throw new DeploymentRefused("settings: min_instances is above max_instances.", { param: "settings" });
    const { standardArgs = {}, extraArgs } = argsAfter(now, update);
    const isOtherArgs = JSON.stringify(extraArgs) !== JSON.stringify(now.extraArgs);
    const isOtherScale = minInstances !== now.minInstances || maxInstances !== now.maxInstances;
    // It means nothing to what is never to sleep.
    const asked = update.inactiveShutdown === undefined ? now.inactiveShutdown : update.inactiveShutdown;
    if (update.inactiveShutdown && minInstances > 0)
      throw new DeploymentRefused("settings: inactive_shutdown lets a deployment sleep, which wants min_instances 0.", {
        param: "settings",
      });
    const inactiveShutdown = minInstances > 0 ? null : asked;
    if (!isOtherArgs && !isOtherScale && inactiveShutdown === now.inactiveShutdown) return undefined;
    return {
      minInstances,
      maxInstances,
      inactiveShutdown,
      ...(isOtherArgs ? { spec: { extraArgs, standardArgs, contextLength: contextLengthAfter(now, extraArgs) } } : {}),
      ...(now.status === "deployed" && (isOtherArgs || isOtherScale) ? { status: "updating" as const } : {}),
    };
  });
}

/** Instances are drained and removed; it can be started again. */
export function stopDeployment(store: Store, account: AccountId, id: DeploymentId): Promise<void> {
  const stoppable: readonly DeploymentStatus[] = ["initializing", "downloading", "deploying", "deployed", "updating"];
  return changeFrom(store, account, id, undefined, (now) => {
    if (!stoppable.includes(now.status))
      throw new WrongDeploymentState(`A deployment that is ${now.status} cannot be stopped.`);
    return { status: "stopping", failReason: "" };
  });
}

/** Its GPUs count again and must be paid. Throws NoFunds or GpuLimitReached as for a new deployment. */
export async function startDeployment(
  store: Store,
  account: AccountId,
  id: DeploymentId,
  deps: FundsDeps & { readonly gpuDefaults: GpuDefaults },
): Promise<void> {
  const found = await getDeployment(store, account, id);
  if (found.status === "stopped") await requireFunds(deps, account, found);
  await changeFrom(store, account, id, deps.gpuDefaults, (now) => {
    if (now.status !== "stopped")
      throw new WrongDeploymentState(`Only a stopped deployment can be started; this one is ${now.status}.`);
    return { status: "initializing", failReason: "", target: 1 };
  });
}

/** Ends it for good; its name is free at once, its GPUs when the host has confirmed the removal. */
export function deleteDeployment(
  store: Store,
  account: AccountId,
  id: DeploymentId,
  kind: DeploymentKind = "model",
  /** Of who asks, for the audit log. */
  ip = "",
): Promise<void> {
  return changeFrom(
    store,
    account,
    id,
    undefined,
    (now) => {
      if (now.status === "deleted") throw new DeploymentConflict("The deployment is deleted already.");
      return { status: "deleted", ip };
    },
    kind,
  );
}

/** Ends every one of the account's, of every kind. */
export async function deleteDeployments(
  store: Store & Pick<DeploymentStore, "list">,
  account: AccountId,
): Promise<void> {
  for (const { id, kind, status } of await store.list(account, undefined, undefined)) {
    if (status === "deleted") continue;
    await deleteDeployment(store, account, id, kind).catch((error) => {
      // Somebody else was faster; whether one is left is looked at again.
      if (!(error instanceof DeploymentConflict)) throw error;
    });
  }
}

/** Each of the two sets is replaced as a whole, or stays as it was. */
function argsAfter(now: Deployment, update: SettingsUpdate): Pick<Deployment, "extraArgs" | "standardArgs"> {
  if (!update.extraArgs && !update.standardArgs) return now;
  const standardArgs = update.standardArgs ?? now.standardArgs ?? {};
  const { maxConcurrentRequests } = standardArgs;
  if (maxConcurrentRequests !== undefined && maxConcurrentRequests !== now.maxBatchSize)
    throw new DeploymentRefused(
      `standard_args: max_concurrent_requests is set when a deployment is made, and is ${now.maxBatchSize} here; make another one for more or less.`,
      { param: "standard_args" },
    );
  const args = withStandardArgs(update.extraArgs ?? ownArgs(now), standardArgs, now.engine);
  return { standardArgs, extraArgs: checkExtraArgs(args, now.engine) };
}

/** What the arguments say; without a word from old or new ones, as it was. */
function contextLengthAfter(now: Deployment, extraArgs: readonly string[]): number {
  const wasAsked = contextLengthOf(now.extraArgs) > 0;
  return contextLengthOf(extraArgs) || (wasAsked ? 0 : now.contextLength);
}

/** Looks, decides, writes if nothing moved meanwhile, and looks again a few times if something did. */
async function changeFrom(
  store: Store,
  account: AccountId,
  id: DeploymentId,
  /** Of a change that may take more GPUs. */
  gpus: GpuDefaults | undefined,
  decide: (now: Deployment) => Change | undefined,
  kind: DeploymentKind = "model",
): Promise<void> {
  for (let attempt = 1; attempt <= 5; attempt++) {
    const now = await getDeployment(store, account, id, kind);
    const change = decide(now);
    if (!change) return;
    const check = gpus && takesMore(now, change) ? gpuCheck(now, change, gpus) : undefined;
    if (await store.change(id, account, now.revision, change, check)) return;
  }
  throw new DeploymentConflict(
    "The deployment is being changed by somebody else at this moment. Look again and retry.",
  );
}

function takesMore(now: Deployment, change: Change): boolean {
  return now.status === "stopped" || (change.maxInstances ?? now.maxInstances) > now.maxInstances;
}

/** A stopped deployment takes none, whatever its settings say, until it is started. */
function gpuCheck(now: Deployment, change: Change, gpus: GpuDefaults): GpuCheck | undefined {
  if (now.status === "stopped" && change.status === undefined) return undefined;
  const wanted = (change.maxInstances ?? now.maxInstances) * now.numGpus;
  return (use) => requireGpus(use, now.gpu, wanted, gpus);
}
