import type { Static } from "typebox";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import type { Adapter } from "../../deployments/adapter.ts";
import type { Lora, LoraStatus } from "./adapters-schemas.ts";
import type { DeploymentRecord } from "./deployment-schemas.ts";
import { isoTime } from "./render-deployment.ts";

export function renderLoraStatus(one: Adapter): Static<typeof LoraStatus> {
  return {
    lora_name: one.name,
    base_model: one.baseModel,
    deploy_id: one.id,
    status: one.status,
    fail_reason: one.failReason,
    created_at: unixSeconds(one.createdAtMs),
    updated_at: unixSeconds(one.updatedAtMs),
  };
}

export function renderLora(one: Adapter): Static<typeof Lora> {
  return {
    ...renderLoraStatus(one),
    source: renderSource(one),
    commit: one.commit,
    private: one.isPrivate,
    description: one.description,
    instances: { running: one.held },
  };
}

/** Query and fragment of a URL are omitted, because they may be secret. */
const renderSource = ({ source, repo, revision, file }: Adapter) =>
  source === "huggingface"
    ? { type: source, repo, revision, ...(file === "" ? {} : { file }) }
    : { type: source, [source === "civitai" ? "civit_url" : "url"]: repo };

/** Renders the deployment record of type `lora`: it runs on the instances of its base model. */
export function renderLoraDeployment(one: Adapter): DeploymentRecord {
  const isComing = ["initializing", "downloading", "deploying"].includes(one.status);
  return {
    type: "lora",
    deploy_id: one.id,
    model_name: one.name,
    version: one.revision || one.commit,
    task: one.base.task,
    status: one.status,
    fail_reason: one.status === "failed" ? one.failReason : "",
    created_at: isoTime(one.createdAtMs),
    updated_at: isoTime(one.updatedAtMs),
    instances: { running: one.held, pending: isComing ? 1 : 0, warming: 0 },
    config: {
      gpu: one.base.gpu,
      num_gpus: one.base.numGpus,
      max_batch_size: one.base.maxBatchSize,
      weights: { repo: one.repo, revision: one.revision, token: one.hasToken ? "********" : null },
    },
    settings: { min_instances: 1, max_instances: 1, inactive_shutdown: null },
    update_error: "",
    rollout: { up_to_date: one.held, outdated: 0, booting: 0 },
    extra_args: [],
    standard_args: {},
    progress: null,
    pending_reasons: [],
  };
}
