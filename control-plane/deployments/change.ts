// PUT, DELETE, stop and start of a deployment: each one guarded write; loops do the rest.
import { noAdapters } from "../../proto/engine-args.ts";
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import { type GpuDefaults, requireGpus } from "../quotas/gpu-limits.ts";
import { type FundsDeps, requireFunds } from "./dedicated-money.ts";
import type { Deployment, DeploymentKind, DeploymentStatus } from "./deployment.ts";
import { DeploymentConflict, DeploymentNotFound, DeploymentRefused, WrongDeploymentState } from "./errors.ts";
import type { MemoryClaim, Run } from "./expected-memory.ts";
import { checkExtraArgs, checkKeptArgs, contextLengthOf } from "./extra-args.ts";
import { isWanted, targetOf } from "./lifecycle.ts";
import {
  batchSizeOf,
  checkBatchSize,
  checkStandardArgs,
  ownArgs,
  type StandardArgs,
  withStandardArgs,
} from "./standard-args.ts";
import type { Change, DeploymentStore, GpuCheck } from "./store.ts";

type Store = Pick<DeploymentStore, "get" | "change">;

export interface UpdateDeps extends Partial<FundsDeps> {
  /** What an instance of it will take once it runs that; absent: nobody says. */
  readonly memory?: (now: Deployment, next: Run) => Promise<MemoryClaim>;
}

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
      throw new DeploymentRefused("settings: min_instances is above max_instances; raise the one or lower the other.", {
        param: "settings",
      });
    const { standardArgs = {}, extraArgs } = argsAfter(now, update);
    const contextLength = contextLengthAfter(now, extraArgs);
    const maxBatchSize = batchSizeOf({ ...now, standardArgs });
    const isFewer = maxBatchSize < batchSizeOf(now);
    const isOtherRun = maxBatchSize > batchSizeOf(now) || JSON.stringify(extraArgs) !== JSON.stringify(now.extraArgs);
    const claim =
      isOtherRun || isFewer ? await memory?.(now, { ...now, extraArgs, contextLength, maxBatchSize }) : undefined;
    // An engine that runs takes no more at once than it was started for, and keeps its memory until it starts anew.
    const isOtherArgs = isOtherRun || givesBack(claim, now);
    const isOtherScale = minInstances !== now.minInstances || maxInstances !== now.maxInstances;
    // It means nothing to what is never to sleep.
    const asked = update.inactiveShutdown === undefined ? now.inactiveShutdown : update.inactiveShutdown;
    if (update.inactiveShutdown && minInstances > 0)
      throw new DeploymentRefused("settings: inactive_shutdown lets a deployment sleep, which wants min_instances 0.", {
        param: "settings",
      });
    const inactiveShutdown = minInstances > 0 ? null : asked;
    if (!isOtherArgs && !isFewer && !isOtherScale && inactiveShutdown === now.inactiveShutdown) return undefined;
    return {
      minInstances,
      maxInstances,
      inactiveShutdown,
      ...(isOtherArgs ? { spec: { extraArgs, standardArgs, contextLength, ...(claim && { memory: claim }) } } : {}),
      endsAdapters: extraArgs.includes(noAdapters) && !now.extraArgs.includes(noAdapters),
      ...(isFewer ? { standardArgs } : {}),
      ...(claim && !isOtherArgs ? { memory: claim } : {}),
      ...(now.status === "deployed" && (isOtherArgs || isOtherScale) ? { status: "updating" as const } : {}),
    };
  });
}

/** Instances are drained and removed; it can be started again. */
export function stopDeployment(store: Store, account: AccountId, id: DeploymentId): Promise<void> {
  const stoppable: readonly DeploymentStatus[] = ["initializing", "downloading", "deploying", "deployed", "updating"];
  return changeFrom(store, account, id, undefined, (now) => {
    if (!stoppable.includes(now.status)) throw wrongState(now.status, "stopped");
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
    if (now.status !== "stopped") throw wrongState(now.status, "started");
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

/** What stands in the way, and what to do. */
function wrongState(status: DeploymentStatus, act: "changed" | "stopped" | "started"): WrongDeploymentState {
  switch (status) {
    case "failed":
      return new WrongDeploymentState(
        `A deployment that has failed cannot be ${act}. Its fail_reason says why it failed; delete it and deploy it anew.`,
      );
    case "deleted":
      return new WrongDeploymentState(`A deployment that was deleted cannot be ${act}. Deploy it anew.`);
    case "stopping":
      return new WrongDeploymentState(
        `A deployment that is stopping cannot be ${act}. Wait until it is stopped, then start it.`,
      );
    case "stopped":
      return new WrongDeploymentState(`This deployment is stopped already. Start it when it is to serve again.`);
    default:
      return new WrongDeploymentState(
        `Only a stopped deployment can be started; this one is ${status}. To have its instances start anew, stop it first.`,
      );
  }
}

/** Each of the two sets is replaced as a whole, or stays as it was. */
function argsAfter(now: Deployment, update: SettingsUpdate): Pick<Deployment, "extraArgs" | "standardArgs"> {
  if (!update.extraArgs && !update.standardArgs) return now;
  const standardArgs = update.standardArgs ?? now.standardArgs ?? {};
  checkBatchSize(batchSizeOf({ ...now, standardArgs }), now.engine);
  const reader = { engine: now.engine, format: now.weights.format };
  // Who says the whole set again with one more in it must not be refused for what an earlier version took.
  checkExtraArgs(update.extraArgs?.filter((arg) => !now.extraArgs.includes(arg)) ?? [], reader);
  checkStandardArgs(update.standardArgs ?? {}, reader, now.standardArgs);
  const args = withStandardArgs(update.extraArgs ?? ownArgs(now), standardArgs, now.engine);
  return { standardArgs, extraArgs: checkKeptArgs(args, reader) };
}

/** The part of a shared GPU, which is paid for, was cut for more than it will take. */
const givesBack = (claim: MemoryClaim | undefined, now: Deployment) =>
  claim?.isMemoryBound === true && now.isMemoryBound === true && claim.memoryBytes < now.memoryBytes;

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
      throw new DeploymentRefused(
        `extra_args: ${noAdapters} would leave the LoRA adapters of this model without one that serves them. Delete them first, or make a deployment of its own without adapters.`,
        { param: "extra_args" },
      );
    if (done) return;
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
