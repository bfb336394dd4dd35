import type { Deployment } from "../../deployments/deployment.ts";
import { pendingOf, targetOf } from "../../deployments/lifecycle.ts";
import { ownArgs, writeStandardArgs } from "../../deployments/standard-args.ts";
import type { DeploymentRecord } from "./deployment-schemas.ts";

/** The deployment record of the interface; the hub token is never shown, only that there is one. */
export function renderDeployment(one: Deployment): DeploymentRecord {
  return {
    type: one.type,
    deploy_id: one.id,
    model_name: one.modelName,
    version: one.version,
    task: one.task,
    status: one.status,
    fail_reason: one.failReason,
    created_at: isoTime(one.createdAtMs),
    updated_at: isoTime(one.updatedAtMs),
    instances: {
      running: one.running,
      pending: pendingOf({ status: one.status, target: targetOf(one) }, one.running),
      warming: one.rollout.booting,
    },
    config: {
      gpu: one.gpu,
      num_gpus: one.numGpus,
      max_batch_size: one.maxBatchSize,
      weights: {
        repo: one.weights.repo,
        revision: one.weights.revision,
        token: one.hasWeightsToken ? "********" : null,
      },
    },
    settings: {
      min_instances: one.minInstances,
      max_instances: one.maxInstances,
      inactive_shutdown: one.inactiveShutdown,
    },
    update_error: one.updateError,
    rollout: { up_to_date: one.rollout.upToDate, outdated: one.rollout.outdated, booting: one.rollout.booting },
    extra_args: [...ownArgs(one)],
    standard_args: writeStandardArgs(one.standardArgs ?? {}),
    progress: one.progress && {
      phase: one.progress.phase,
      done_bytes: one.progress.doneBytes,
      total_bytes: one.progress.totalBytes,
      trouble: one.progress.trouble,
    },
    pending_reasons: one.pendingReasons.map(({ host, why }) => ({ host, why })),
  };
}

/** `2026-01-02T03:04:05+00:00` */
export function isoTime(unixMs: number): string {
  return `${new Date(unixMs).toISOString().slice(0, 19)}+00:00`;
}
