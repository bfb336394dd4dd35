// POST /v1/deploy: the model's provider decides how it is deployed.
import type { GpuType } from "../../proto/gpu.ts";
import { createDeployment, type Owner, versionOf } from "./create.ts";
import { createHf, type HfDeps } from "./create-hf.ts";
import { createFromImage } from "./create-image.ts";
import { defaultGpu } from "./default-gpu.ts";
import type { Deployment } from "./deployment.ts";
import { modelUnknown } from "./errors.ts";

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
