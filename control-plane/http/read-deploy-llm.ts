import type { DeployRequest } from "../deployments/create.ts";
import { DeploymentRefused } from "../deployments/errors.ts";
import { readStandardArgs } from "../deployments/standard-args.ts";
import type { DeployLlmRequest } from "./schemas/deployment.ts";

interface Hf {
  readonly repo: string;
  readonly revision?: string | null;
  readonly token?: string | null;
}
interface Settings {
  readonly min_instances?: number;
  readonly max_instances?: number;
  readonly inactive_shutdown?: number | null;
}

/** The body of POST /deploy/llm with its defaults. Throws DeploymentRefused. */
export function readDeployLlm(body: DeployLlmRequest): DeployRequest {
  if (body.preset_id)
    throw new DeploymentRefused("preset_id: there are no presets here; leave it out.", { param: "preset_id" });
  const hf = body.hf as Hf | null | undefined;
  const settings = body.settings as Settings | null | undefined;
  return {
    modelName: body.model_name,
    gpu: body.gpu,
    numGpus: body.num_gpus ?? 1,
    maxBatchSize: body.max_batch_size ?? 96,
    hf: hf
      ? {
          repo: hf.repo,
          ...(hf.revision ? { revision: hf.revision } : {}),
          ...(hf.token ? { token: hf.token } : {}),
        }
      : undefined,
    baseModel: body.base_model ?? undefined,
    minInstances: settings?.min_instances ?? 1,
    maxInstances: settings?.max_instances ?? Math.max(1, settings?.min_instances ?? 1),
    ...(settings?.inactive_shutdown ? { inactiveShutdown: settings.inactive_shutdown } : {}),
    extraArgs: (body.extra_args ?? []) as string[],
    standardArgs: readStandardArgs(body.standard_args),
    engine: body.engine,
    image: (body.container_image as string | null | undefined) ?? undefined,
  };
}
