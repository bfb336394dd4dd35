// POST /deploy/hf/: a hub model of any task. What the hub says of the repository decides; what cannot work is refused now,
// not after a download.
import type { GpuType } from "../../proto/gpu.ts";
import type { HostView } from "../fleet/host.ts";
import { type CreateDeps, checkRepo, createDeployment, type Owner } from "./create.ts";
import { defaultGpu } from "./default-gpu.ts";
import type { Deployment } from "./deployment.ts";
import { DeploymentRefused } from "./errors.ts";
import { engineOfTask, taskOf } from "./tasks.ts";

export interface HfRequest {
  /** The repository; the deployment has its name. */
  readonly modelName: string;
  readonly task: string | undefined;
  readonly revision: string | undefined;
  readonly token: string | undefined;
  /** Undefined: the smallest that is free. */
  readonly gpu: GpuType | undefined;
  readonly numGpus: number;
  readonly maxBatchSize: number;
  readonly minInstances: number;
  readonly maxInstances: number;
}

export interface HfDeps extends CreateDeps {
  readonly hosts: () => Promise<readonly HostView[]>;
}

/** Throws the errors of createDeployment. */
export async function createHf(deps: HfDeps, owner: Owner, request: HfRequest): Promise<Deployment> {
  const revision = request.revision ?? "main";
  checkRepo(request.modelName, revision, { repo: "model_name", revision: "version" });
  // Another revision than the known files' is the hub's to give.
  const named = deps.demoModel(request.modelName);
  const known = named?.weights.revision === revision ? named : undefined;
  const look = known ? undefined : await deps.lookAtRepo(request.modelName, revision, request.token);
  const found = look?.kind === "found" ? look : undefined;
  const task = taskOf(request.task ?? known?.task, found?.task);
  const by = engineOfTask(task);
  if (by === "onnx" && found && !found.formats.has("onnx"))
    throw new DeploymentRefused(
      `model_name: the repository holds no ONNX weights, and ${task} is served from nothing else; deploy one that has them (an onnx/ folder, as onnx-community repositories do).`,
      { param: "model_name" },
    );
  return createDeployment(deps, owner, {
    modelName: request.modelName,
    task,
    gpu: request.gpu ?? defaultGpu(await deps.hosts()),
    numGpus: request.numGpus,
    maxBatchSize: request.maxBatchSize,
    hf: {
      repo: known?.weights.repo ?? request.modelName,
      revision,
      ...(request.token === undefined ? {} : { token: request.token }),
    },
    baseModel: undefined,
    minInstances: request.minInstances,
    maxInstances: request.maxInstances,
    extraArgs: [],
    ...(by === "onnx" ? { choice: { engine: "stoker", format: "onnx" } } : {}),
  });
}
