// PUT, DELETE, stop and start of a deployment: each is one guarded write; loops do the rest.

import { isDeepStrictEqual } from "node:util";
import { noAdapters } from "../../proto/engine-args.ts";
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import type { Act, Actor } from "../act.ts";
import { type GpuDefaults, requireGpus } from "../quotas/gpu-limits.ts";
import type { ServiceError } from "../service-error.ts";
import { type FundsDeps, requireFunds } from "./dedicated-money.ts";
import type { Deployment, DeploymentKind, DeploymentStatus, StandardArgs } from "./deployment.ts";
import { DeploymentConflict, DeploymentNotFound, deploymentRefused, wrongDeploymentState } from "./errors.ts";
import type { MemoryClaim, Run } from "./expected-memory.ts";
import { checkExtraArgs, checkKeptArgs, contextLengthOf } from "./extra-args.ts";
import { isWanted, targetOf } from "./lifecycle.ts";
import { checkScaling, type ScalingUpdate, scalingAfter } from "./scaling.ts";
import { batchSizeOf, checkBatchSize, checkStandardArgs, ownArgs, withStandardArgs } from "./standard-args.ts";
import type { Change, DeploymentStore, GpuCheck } from "./store.ts";

type Store = Pick<DeploymentStore, "get" | "change">;

export interface UpdateDeps extends Partial<FundsDeps> {
  /** Memory of an instance after the change; undefined: unknown. */
  readonly memory?: (now: Deployment, next: Run) => Promise<MemoryClaim>;
}

export interface SettingsUpdate {
  readonly minInstances?: number;
  readonly maxInstances?: number;
  /** Seconds without a request until it sleeps; null: the default. Only with min_instances 0. */
  readonly inactiveShutdown?: number | null;
  /** Seconds without a request until an instance sleeps; 0: never. */
  readonly sleepAfterSeconds?: number;
  readonly scaling?: ScalingUpdate;
  /** Replaces the whole set. Instances are replaced one at a time, beside the old ones where there is capacity. */
  readonly extraArgs?: readonly string[];
  /** Likewise, independent of `extraArgs`. */
  readonly standardArgs?: StandardArgs;
}

export async function getDeployment(
  store: Pick<DeploymentStore, "get">,
  account: AccountId,
  id: DeploymentId,
  /** Deployments of another kind are not found. */
  kind: DeploymentKind = "model",
): Promise<Deployment> {
  const found = await store.get(id, account);
  if (found?.kind !== kind) throw new DeploymentNotFound();
  return found;
}

/** Throws noFunds when the account cannot hold the first minutes of the additional instances. */
export async function updateDeployment(
  store: Store,
  account: AccountId,
  id: DeploymentId,
  update: SettingsUpdate,
  gpus: GpuDefaults,
  { memory, funds, firstMinutes }: UpdateDeps = {},
): Promise<void> {
  if (funds && firstMinutes && update.minInstances !== undefined) {
    const now = await getDeployment(store, account, id);
    const more = isWanted(now.status) ? update.minInstances - targetOf(now) : 0;
    if (more > 0) await requireFunds({ funds, firstMinutes }, account, { ...now, minInstances: more });
  }
  await changeFrom(store, account, id, gpus, async (now) => {
    if (now.status === "deleted") throw new DeploymentConflict("The deployment was deleted; create a new one.");
    if (now.status === "failed" || now.status === "stopping") throw wrongState(now.status, "changed");
    const minInstances = update.minInstances ?? now.minInstances;
    const maxInstances = update.maxInstances ?? now.maxInstances;
    if (minInstances > maxInstances)
      throw deploymentRefused("settings: min_instances must be at most max_instances.", {
        param: "settings",
      });
    const { standardArgs = {}, extraArgs } = argsAfter(now, update);
    const contextLength = contextLengthAfter(now, extraArgs);
    const maxBatchSize = batchSizeOf({ ...now, standardArgs });
    const isFewer = maxBatchSize < batchSizeOf(now);
    const isOtherRun = maxBatchSize > batchSizeOf(now) || JSON.stringify(extraArgs) !== JSON.stringify(now.extraArgs);
    const claim =
      isOtherRun || isFewer ? await memory?.(now, { ...now, extraArgs, contextLength, maxBatchSize }) : undefined;
    // A running engine cannot accept more concurrent requests than it was started for, and keeps its memory until a restart.
    const isOtherArgs = isOtherRun || givesBack(claim, now);
    const isOtherScale = minInstances !== now.minInstances || maxInstances !== now.maxInstances;
    // Ignored for a deployment that never sleeps.
    const requested = update.inactiveShutdown === undefined ? now.inactiveShutdown : update.inactiveShutdown;
    if (update.inactiveShutdown && minInstances > 0)
      throw deploymentRefused("settings: inactive_shutdown requires min_instances 0.", {
        param: "settings",
      });
    const inactiveShutdown = minInstances > 0 ? null : requested;
    const sleepAfterSeconds = sleepAfter(now, update);
    const scaling = scalingAfter(now.scaling, update.scaling ?? {});
    checkScaling(scaling, maxInstances);
    const isSameRule = inactiveShutdown === now.inactiveShutdown && isDeepStrictEqual(scaling, now.scaling);
    const isSame = isSameRule && sleepAfterSeconds === undefined;
    if (!isOtherArgs && !isFewer && !isOtherScale && isSame) return undefined;
    return {
      minInstances,
      maxInstances,
      inactiveShutdown,
      ...(sleepAfterSeconds === undefined ? {} : { sleepAfterSeconds }),
      scaling,
      ...(isOtherArgs ? { spec: { extraArgs, standardArgs, contextLength, ...(claim && { memory: claim }) } } : {}),
      endsAdapters: extraArgs.includes(noAdapters) && !now.extraArgs.includes(noAdapters),
      ...(isFewer ? { standardArgs } : {}),
      ...(claim && !isOtherArgs ? { memory: claim } : {}),
      ...(now.status === "deployed" && (isOtherArgs || isOtherScale) ? { status: "updating" as const } : {}),
    };
  });
}

/** Undefined: unchanged. */
function sleepAfter(now: Deployment, { sleepAfterSeconds }: SettingsUpdate): number | undefined {
  const before = now.sleepAfterSeconds ?? 0;
  if (sleepAfterSeconds === undefined || sleepAfterSeconds === before) return undefined;
  // Instances are placed as such that sleep, and vLLM is started for it.
  if (sleepAfterSeconds > 0 !== before > 0)
    throw deploymentRefused(
      "settings: sleep_after_seconds cannot be switched on or off after creation. Create the deployment again with it.",
      { param: "settings" },
    );
  return sleepAfterSeconds;
}

/** Drains and removes all instances; the deployment can be started again. */
export function stopDeployment(store: Store, account: AccountId, id: DeploymentId, act?: Act): Promise<void> {
  const stoppable: readonly DeploymentStatus[] = ["initializing", "downloading", "deploying", "deployed", "updating"];
  return changeFrom(store, account, id, undefined, (now) => {
    if (!stoppable.includes(now.status)) throw wrongState(now.status, "stopped");
    return { status: "stopping", failReason: "", ...(act && { act }) };
  });
}

/**
 * Starts a stopped or failed deployment. Its GPUs count again and must be paid: throws noFunds or GpuLimitReached as for a
 * new deployment, and DeploymentConflict when another one has taken its name.
 */
export async function startDeployment(
  store: Store,
  account: AccountId,
  id: DeploymentId,
  deps: FundsDeps & { readonly gpuDefaults: GpuDefaults },
  act?: Act,
): Promise<void> {
  const found = await getDeployment(store, account, id);
  if (isAtRest(found.status)) await requireFunds(deps, account, found);
  await changeFrom(store, account, id, deps.gpuDefaults, (now) => {
    if (!isAtRest(now.status)) throw wrongState(now.status, "started");
    return { status: "initializing", failReason: "", target: 1, ...(act && { act }) };
  });
}

/** Restarts every instance in place, at once. Throws wrongDeploymentState for one that does not run. */
export function restartDeployment(store: Store, account: AccountId, id: DeploymentId, act: Act): Promise<void> {
  return changeFrom(store, account, id, undefined, (now) => {
    if (!isWanted(now.status)) throw wrongState(now.status, "restarted");
    return { isNewGeneration: true, act };
  });
}

/** Holds no GPUs until it is started. */
const isAtRest = (status: DeploymentStatus) => status === "stopped" || status === "failed";

/** Ends it permanently; its name is free at once, its GPUs when the host has confirmed the removal. */
export function deleteDeployment(
  store: Store,
  account: AccountId,
  id: DeploymentId,
  kind: DeploymentKind = "model",
  act?: Act,
): Promise<void> {
  return changeFrom(
    store,
    account,
    id,
    undefined,
    (now) => {
      if (now.status === "deleted") throw new DeploymentConflict("The deployment is already deleted.");
      return { status: "deleted", ...(act && { act }) };
    },
    kind,
  );
}

/** Ends all deployments of the account, of every kind. */
export async function deleteDeployments(store: Store & Pick<DeploymentStore, "list">, actor: Actor): Promise<void> {
  const { account, ip, by = account } = actor;
  for (const { id, kind, status } of await store.list(account, undefined, undefined)) {
    if (status === "deleted") continue;
    await deleteDeployment(store, account, id, kind, { by, ip, note: "" }).catch((error) => {
      // A concurrent change won; the next pass checks whether any is left.
      if (!(error instanceof DeploymentConflict)) throw error;
    });
  }
}

/** Ends the account's deployments of a model: of one version, or all. */
export async function deleteModel(
  store: Store & Pick<DeploymentStore, "list">,
  account: AccountId,
  name: string,
  version: string | undefined,
  act: Act,
): Promise<void> {
  for (const one of await store.list(account, "model", undefined)) {
    if (one.modelName !== name || one.status === "deleted") continue;
    if (version === undefined || one.version === version) await deleteDeployment(store, account, one.id, "model", act);
  }
}

/** Says which state prevents the action, and what to do. */
function wrongState(status: DeploymentStatus, act: "changed" | "stopped" | "started" | "restarted"): ServiceError {
  switch (status) {
    case "failed":
      return wrongDeploymentState(
        `A deployment that has failed cannot be ${act}. Read its fail_reason, then start it again or delete it.`,
      );
    case "deleted":
      return wrongDeploymentState(`A deployment that was deleted cannot be ${act}. Create a new one.`);
    case "stopping":
      return wrongDeploymentState(
        `A deployment that is stopping cannot be ${act}. Wait until it is stopped, then start it.`,
      );
    case "stopped":
      return wrongDeploymentState("This deployment is already stopped.");
    default:
      return wrongDeploymentState(
        `Only a stopped or failed deployment can be started; this one is ${status}. To restart its instances, stop it first.`,
      );
  }
}

/** Each of the two sets is replaced as a whole, or kept. */
function argsAfter(now: Deployment, update: SettingsUpdate): Pick<Deployment, "extraArgs" | "standardArgs"> {
  if (!update.extraArgs && !update.standardArgs) return now;
  const standardArgs = update.standardArgs ?? now.standardArgs ?? {};
  checkBatchSize(batchSizeOf({ ...now, standardArgs }), now.engine);
  const reader = { engine: now.engine, format: now.weights.format };
  // Arguments accepted by an earlier version must not be refused when they are sent again with one more.
  checkExtraArgs(update.extraArgs?.filter((arg) => !now.extraArgs.includes(arg)) ?? [], reader);
  checkStandardArgs(update.standardArgs ?? {}, reader, now.standardArgs);
  const args = withStandardArgs(update.extraArgs ?? ownArgs(now), standardArgs, now.engine);
  return { standardArgs, extraArgs: checkKeptArgs(args, reader) };
}

/** The GPU share was sized for more memory than the instance will use. */
const givesBack = (claim: MemoryClaim | undefined, now: Deployment) =>
  claim?.isMemoryBound === true && now.isMemoryBound === true && claim.memoryBytes < now.memoryBytes;

/** From the arguments; without one in old and new arguments, unchanged. */
function contextLengthAfter(now: Deployment, extraArgs: readonly string[]): number {
  const wasSet = contextLengthOf(now.extraArgs) > 0;
  return contextLengthOf(extraArgs) || (wasSet ? 0 : now.contextLength);
}

/** Reads, decides and writes if the row is unchanged; retries a few times if it changed. */
async function changeFrom(
  store: Store,
  account: AccountId,
  id: DeploymentId,
  /** For a change that may need more GPUs. */
  gpus: GpuDefaults | undefined,
  decide: (now: Deployment) => Change | undefined | Promise<Change | undefined>,
  kind: DeploymentKind = "model",
): Promise<void> {
  for (let attempt = 1; attempt <= 5; attempt++) {
    const now = await getDeployment(store, account, id, kind);
    const change = await decide(now);
    if (!change) return;
    const check = gpus && takesMore(now, change) ? gpuCheck(now, change, gpus) : undefined;
    const done = await store.change(id, account, now.revision, change, check);
    if (done === "has_adapters")
      throw deploymentRefused(
        `extra_args: ${noAdapters} cannot be set while this model has LoRA adapters. Delete them first, or create another deployment.`,
        { param: "extra_args" },
      );
    if (done === "name_taken")
      throw new DeploymentConflict("Another deployment or adapter now has this name. Delete that one, or this one.");
    if (done) return;
  }
  throw new DeploymentConflict("The deployment is being changed by another request. Read it again and retry.");
}

function takesMore(now: Deployment, change: Change): boolean {
  return isAtRest(now.status) || (change.maxInstances ?? now.maxInstances) > now.maxInstances;
}

/** A stopped deployment uses no GPUs until it is started. */
function gpuCheck(now: Deployment, change: Change, gpus: GpuDefaults): GpuCheck | undefined {
  if (isAtRest(now.status) && change.status === undefined) return undefined;
  const wanted = (change.maxInstances ?? now.maxInstances) * now.numGpus;
  return (use) => requireGpus(use, now.gpu, wanted, gpus);
}
