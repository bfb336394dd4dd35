// POST /v1/deploy: the model's provider decides how it is deployed.
import { isMessagesApi, isOwnApi, type ServerApi } from "../../proto/api-formats.ts";
import { type GpuType, inDisplayOrder, nominalBytes } from "../../proto/gpu.ts";
import { type AccountId, randomId } from "../../proto/ids.ts";
import type { HostView } from "../fleet/host.ts";
import { requireGpus } from "../quotas/gpu-limits.ts";
import {
  type CreateDeps,
  checkAddress,
  createDeployment,
  type DeployRequest,
  fullName,
  type Owner,
  versionOf,
} from "./create.ts";
import { requireFunds } from "./dedicated-money.ts";
import type { Deployment } from "./deployment.ts";
import {
  accountEnded,
  deploymentNameTaken,
  deploymentRefused,
  externalKeyDiffers,
  hostNotFound,
  modelUnknown,
  refuseSuspended,
  repositoryUnknown,
} from "./errors.ts";
import type { Scaling } from "./scaling.ts";
import { type DeploymentStore, type NewDeployment, singleInstance } from "./store.ts";
import { engineOfTask, taskOf } from "./tasks.ts";

/** `cnt`: a container image; `stoker`: a model of this installation. */
export type DeployProvider = "huggingface" | "stoker" | "cnt";

export interface ProvidedModel {
  readonly modelName: string;
  /** A revision of the hub; for an image a tag or digest. */
  readonly version: string | undefined;
  /** Undefined: the smallest free type. */
  readonly gpu: GpuType | undefined;
  readonly numGpus: number;
  readonly maxBatchSize: number;
}

/** Throws modelUnknown, and the errors of createDeployment. */
export async function createBy(
  deps: HfDeps,
  owner: Owner,
  provider: DeployProvider,
  request: ProvidedModel,
): Promise<Deployment> {
  const { modelName, version, numGpus, maxBatchSize } = request;
  const size = { numGpus, maxBatchSize };
  if (provider === "huggingface") {
    const hub = { task: undefined, token: undefined, revision: version, minInstances: 1, maxInstances: 1 };
    return createHf(deps, owner, { ...hub, ...size, modelName, gpu: request.gpu });
  }
  const gpu = request.gpu ?? defaultGpu(await deps.hosts());
  if (provider === "cnt") return createFromImage(deps, owner, { ...size, image: modelName, version, gpu });
  if (version !== undefined) {
    const model = deps.demoModel(modelName) ?? (await deps.publicModel(modelName));
    if (model && version !== versionOf(model.weights) && version !== model.weights.revision)
      throw modelUnknown(
        `The model ${modelName} has no version ${version.slice(0, 80)}. Leave out version for the latest.`,
        { param: "version" },
      );
  }
  const name = modelName.split("/").at(-1) ?? modelName;
  return createDeployment(deps, owner, {
    ...size,
    // Its own name is the public one; this copy belongs to the caller.
    modelName: name,
    gpu,
    hf: undefined,
    baseModel: modelName,
    minInstances: 1,
    maxInstances: 1,
    extraArgs: [],
  });
}

interface ImageRequest {
  /** The image's repository, without tag or digest. */
  readonly image: string;
  /** A tag, or `sha256:...`; undefined: no suffix. */
  readonly version: string | undefined;
  readonly gpu: GpuType;
  readonly numGpus: number;
  readonly maxBatchSize: number;
}

const imageForm = /^[a-z0-9][\w./:-]{0,254}$/;
const versionForm = /^(sha256:[0-9a-f]{64}|[\w][\w.-]{0,127})$/;

/** The hosts decide which images they allow, and report a refusal. Returns the record, `initializing`. Throws the errors of errors.ts, and GpuLimitReached. */
async function createFromImage(deps: CreateDeps, owner: Owner, request: ImageRequest): Promise<Deployment> {
  refuseSuspended(owner);
  const { image, version, gpu, numGpus, maxBatchSize } = request;
  if (!imageForm.test(image) || image.includes(".."))
    throw deploymentRefused("model_name: an image must have the form registry.example/owner/name, in lower case.", {
      param: "model_name",
    });
  if (version !== undefined && !versionForm.test(version))
    throw deploymentRefused("version must be a tag, or sha256: with the 64 digits of a digest.", { param: "version" });
  const scale = { gpu, numGpus, minInstances: 1, maxInstances: 1 };
  const modelName = fullName(image.split("/").slice(-2).join("/").replaceAll(":", "-"), owner.displayName);
  await requireFunds(deps, owner.account, { ...scale, modelName });
  const reference = version === undefined ? image : `${image}${version.startsWith("sha256:") ? "@" : ":"}${version}`;
  const created = await deps.store.insert(
    {
      ...singleInstance,
      ...scale,
      id: randomId<"deployment">(16),
      account: owner.account,
      kind: "model",
      modelName,
      version: versionOf({ repo: image, revision: version ?? "latest" }),
      task: "custom",
      engine: "custom",
      maxBatchSize,
      image: reference,
    },
    (use) => requireGpus(use, gpu, numGpus, deps.gpuDefaults),
  );
  if (created === "account_gone") throw accountEnded();
  if (created === "name_taken") throw deploymentNameTaken(modelName);
  return created;
}

export interface HfRequest {
  /** The repository unless `repo` names one, and the deployment's name. */
  readonly modelName: string;
  /** Address of the weights: a hub repository, or an address with a scheme. */
  readonly repo?: string | undefined;
  readonly task: string | undefined;
  readonly revision: string | undefined;
  readonly token: string | undefined;
  /** Undefined: the smallest free type. */
  readonly gpu: GpuType | undefined;
  readonly numGpus: number;
  readonly maxBatchSize: number;
  readonly minInstances: number;
  readonly maxInstances: number;
  readonly scaling?: Scaling;
}

export interface HfDeps extends CreateDeps {
  readonly hosts: () => Promise<readonly HostView[]>;
}

/** Throws the errors of hubDeployRequest and createDeployment. */
export const createHf = async (deps: HfDeps, owner: Owner, request: HfRequest): Promise<Deployment> =>
  createDeployment(deps, owner, await hubDeployRequest(deps, request));

/** Checks the hub's record first, so that impossible deployments fail now. Throws modelUnknown, deploymentRefused. */
export async function hubDeployRequest(
  deps: Pick<HfDeps, "demoModel" | "lookAtRepo" | "hosts">,
  request: HfRequest,
): Promise<DeployRequest> {
  const { repo = request.modelName } = request;
  const fields = { repo: request.repo === undefined ? "model_name" : "repo", revision: "version" };
  const revision = checkAddress(repo, request.revision, fields);
  // Known files apply to their own revision only.
  const named = deps.demoModel(repo);
  const known = named?.weights.revision === revision ? named : undefined;
  const look = known ? undefined : await deps.lookAtRepo(repo, revision, request.token);
  if (look?.kind === "missing") throw repositoryUnknown(repo, revision, { repo: fields.repo, revision: "version" });
  const found = look?.kind === "found" ? look : undefined;
  const task = taskOf(request.task ?? known?.task, found?.task);
  const taskEngine = engineOfTask(task);
  if (taskEngine === "onnx" && found && !found.formats.has("onnx"))
    throw deploymentRefused(
      `${fields.repo}: ${task} requires ONNX weights, which the repository does not have; use one with an onnx/ folder, such as those of onnx-community.`,
      { param: fields.repo },
    );
  return {
    modelName: request.modelName,
    task,
    gpu: request.gpu ?? defaultGpu(await deps.hosts()),
    numGpus: request.numGpus,
    maxBatchSize: request.maxBatchSize,
    hf: {
      repo: known?.weights.repo ?? repo,
      ...(revision === "" ? {} : { revision }),
      ...(request.token === undefined ? {} : { token: request.token }),
    },
    baseModel: undefined,
    minInstances: request.minInstances,
    maxInstances: request.maxInstances,
    ...(request.scaling ? { scaling: request.scaling } : {}),
    extraArgs: [],
    ...(taskEngine === "onnx" ? { choice: { engine: "stoker", format: "onnx" } } : {}),
  };
}

/** Requests that a server gets at once if it reports no number; it queues those that it does not batch. */
const defaultServerBatch = 96;

export interface ExternalRequest {
  readonly name: string;
  /** Origin of a running server, as seen from the host. */
  readonly url: string;
  /** Undefined: as many as the server reports, else `defaultServerBatch`. */
  readonly maxBatchSize: number | undefined;
  /** Model name at the server; default: the deployment's name. */
  readonly servedName: string | undefined;
  /** Id or name of the host whose agent reaches the server; default: any live host. */
  readonly host: string | undefined;
  readonly contextLength: number | undefined;
  /** Task of its models; default: text generation. */
  readonly task?: string | undefined;
  /** API format of the server; default: openai. */
  readonly api?: ServerApi | undefined;
  /** Sent to the server with every request; undefined: none. Stored sealed, never shown. */
  readonly apiKey?: string | undefined;
}

/**
 * Adds a running server as an instance with the usual keys, gate, metering and billing. For the operator. Idempotent by
 * address and key. Throws deploymentRefused, hostNotFound, deploymentNameTaken, externalKeyDiffers.
 */
export async function createExternal(
  deps: {
    readonly store: Pick<DeploymentStore, "insert" | "list" | "weightsToken">;
    readonly hasHost: (idOrName: string) => Promise<boolean>;
    readonly sealToken: (account: AccountId, token: string) => Promise<Buffer>;
    readonly openToken: (account: AccountId, sealed: Buffer) => Promise<string>;
  },
  owner: Owner,
  request: ExternalRequest,
): Promise<Deployment> {
  const url = parse(request.url);
  if (isMessagesApi(request.api) && (request.task ?? "text-generation") !== "text-generation")
    throw deploymentRefused("This format serves only the task text-generation.", { param: "task" });
  if (request.api === "tei" && !teiTasks.has(request.task ?? ""))
    throw deploymentRefused(`This format requires task: ${[...teiTasks].join(" or ")}.`, { param: "task" });
  if (request.host !== undefined && !(await deps.hasHost(request.host))) throw hostNotFound(request.host);
  const weights = {
    repo: "",
    revision: "",
    ...(request.servedName === undefined ? {} : { servedName: request.servedName }),
    ...(request.host === undefined ? {} : { host: request.host }),
    ...(isOwnApi(request.api) ? { api: request.api } : {}),
  };
  const next: NewDeployment = {
    id: randomId<"deployment">(16),
    account: owner.account,
    kind: "model",
    modelName: request.name,
    version: versionOf({ repo: url, revision: request.name }),
    task: request.task ?? "text-generation",
    type: "llm",
    engine: "external",
    gpu: "other",
    numGpus: 0,
    maxBatchSize: request.maxBatchSize ?? defaultServerBatch,
    takesServerBatch: request.maxBatchSize === undefined,
    minInstances: 1,
    maxInstances: 1,
    weights,
    weightsToken: request.apiKey === undefined ? null : await deps.sealToken(owner.account, request.apiKey),
    extraArgs: [],
    externalUrl: url,
    contextLength: request.contextLength ?? 0,
    memoryBytes: 0,
  };
  // No GPU check: it uses none of our GPUs.
  const created = await deps.store.insert(next, () => {});
  if (created === "account_gone") throw accountEnded();
  if (created !== "name_taken") return created;
  const own = await deps.store.list(owner.account, "model", undefined);
  const same = own.find(
    (one) =>
      one.modelName === request.name &&
      one.externalUrl === url &&
      one.weights.api === weights.api &&
      !["deleted", "failed"].includes(one.status),
  );
  if (!same) throw deploymentNameTaken(request.name);
  const sealed = await deps.store.weightsToken(same.id, owner.account);
  const known = sealed ? await deps.openToken(owner.account, sealed) : undefined;
  if (known !== request.apiKey) throw externalKeyDiffers(same.id);
  return same;
}

const teiTasks: ReadonlySet<string> = new Set(["embeddings", "reranker"]);

function parse(text: string): string {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
    throw deploymentRefused("url must have the form http://host:port, without user, query or fragment.", {
      param: "url",
    });
  }
  // A path such as /v1 is part of the requests that the agent sends.
  return `${url.origin}${url.pathname.replace(/\/(v1\/?)?$/, "")}`;
}

/** Within one size, the last in display order first. */
const smallestFirst = (types: Iterable<GpuType>): GpuType[] =>
  inDisplayOrder(types)
    .toReversed()
    .toSorted((a, b) => nominalBytes(a) - nominalBytes(b));

/** Default GPU type: the smallest with a free GPU, else the smallest that exists, else `other`. */
function defaultGpu(hosts: readonly HostView[]): GpuType {
  const existing = new Set<GpuType>();
  const free = new Set<GpuType>();
  for (const host of hosts) {
    if (host.state !== "live" || !host.schedulable) continue;
    const claimed = new Set(host.claims.map(({ gpuUuid }) => gpuUuid));
    for (const gpu of host.inventory.gpus) {
      existing.add(gpu.type);
      if (gpu.isHealthy && !claimed.has(gpu.uuid)) free.add(gpu.type);
    }
  }
  const smallest = (types: Iterable<GpuType>) => smallestFirst(types)[0];
  return smallest(free) ?? smallest(existing) ?? "other";
}
