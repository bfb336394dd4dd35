// POST /v1/deploy: where a model comes from decides how it is deployed.
import type { GpuType } from "../../proto/gpu.ts";
import { createDeployment, type Owner } from "./create.ts";
import { createHf, type HfDeps } from "./create-hf.ts";
import { createFromImage } from "./create-image.ts";
import { defaultGpu } from "./default-gpu.ts";
import type { Deployment } from "./deployment.ts";

/** `cnt`: a container image; `stoker`: a model that this installation offers. */
export type DeployProvider = "huggingface" | "stoker" | "cnt";

export interface ProvidedModel {
  readonly modelName: string;
  /** Of the hub: a revision; of an image: a tag or digest. */
  readonly version: string | undefined;
  /** Undefined: the least that is free. */
  readonly gpu: GpuType | undefined;
  readonly numGpus: number;
  readonly maxBatchSize: number;
}

/** Throws the errors of createDeployment. */
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
