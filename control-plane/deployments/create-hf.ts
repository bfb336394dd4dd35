// POST /deploy/hf/: a hub model of any task. Checks the hub's record of the repository first, so that impossible deployments
// fail now and not after a download.
import type { GpuType } from "../../proto/gpu.ts";
import type { HostView } from "../fleet/host.ts";
import { type CreateDeps, checkRepo, createDeployment, type Owner } from "./create.ts";
import { defaultGpu } from "./default-gpu.ts";
import type { Deployment } from "./deployment.ts";
import { deploymentRefused, modelUnknown } from "./errors.ts";
import { engineOfTask, taskOf } from "./tasks.ts";

export interface HfRequest {
  /** The repository, which is also the deployment's name. */
  readonly modelName: string;
  readonly task: string | undefined;
  readonly revision: string | undefined;
  readonly token: string | undefined;
  /** Undefined: the smallest free type. */
  readonly gpu: GpuType | undefined;
  readonly numGpus: number;
  readonly maxBatchSize: number;
  readonly minInstances: number;
  readonly maxInstances: number;
}

export interface HfDeps extends CreateDeps {
  readonly hosts: () => Promise<readonly HostView[]>;
}

/** Throws modelUnknown, and the errors of createDeployment. */
export async function createHf(deps: HfDeps, owner: Owner, request: HfRequest): Promise<Deployment> {
  const revision = request.revision ?? "main";
  checkRepo(request.modelName, revision, { repo: "model_name", revision: "version" });
  // Known files apply to their own revision only.
  const named = deps.demoModel(request.modelName);
  const known = named?.weights.revision === revision ? named : undefined;
  const look = known ? undefined : await deps.lookAtRepo(request.modelName, revision, request.token);
  if (look?.kind === "missing")
    throw modelUnknown(
      `The hub has no repository ${request.modelName} at revision ${revision}, or the token may not read it. Check model_name and version.`,
      { param: "model_name" },
    );
  const found = look?.kind === "found" ? look : undefined;
  const task = taskOf(request.task ?? known?.task, found?.task);
  const taskEngine = engineOfTask(task);
  if (taskEngine === "onnx" && found && !found.formats.has("onnx"))
    throw deploymentRefused(
      `model_name: ${task} requires ONNX weights, which the repository does not have; use one with an onnx/ folder, such as those of onnx-community.`,
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
    ...(taskEngine === "onnx" ? { choice: { engine: "stoker", format: "onnx" } } : {}),
  });
}
