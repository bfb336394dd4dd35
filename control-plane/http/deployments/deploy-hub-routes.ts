import type { Static } from "typebox";
import type { DeploymentId } from "../../../proto/ids.ts";
import type { HfRequest } from "../../deployments/create-by.ts";
import { mediumBodyBytes } from "../body/json-body.ts";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import {
  DeployHfRequest,
  DeploymentRecord,
  DeployRequestV1,
  NewPlacementReport,
  PrefixCacheAnswer,
  PrefixCacheRequest,
} from "./deployment-schemas.ts";
import type { DeploymentFeatures } from "./features.ts";
import { renderDeployment, renderDryRun } from "./render-deployment.ts";
import { newScaling, type ScalingSettings } from "./scaling-settings.ts";

const common = { answer: DeploymentRecord, refusals: [400, 402, 404, 409, 423] } as const;

interface Scale extends ScalingSettings {
  readonly min_instances?: number;
  readonly max_instances?: number;
}

export function addDeployHubRoutes(endpoints: Endpoints, { deployments, placement }: DeploymentFeatures): void {
  const own = endpoints.with({ tag: "deployments", access: "key", idempotent: true });

  own.post("/deploy/hf/", {
    ...common,
    summary: "Deploy a hub model of any task",
    bodyLimitBytes: mediumBodyBytes,
    body: DeployHfRequest,
    async handler({ caller, body }) {
      return renderDeployment(await deployments.createHf(caller, readDeployHf(body)));
    },
  });

  endpoints.with({ tag: "deployments", access: "key" }).post("/deploy/hf/placement", {
    ...common,
    summary: "Check whether a hub model of any task would fit, and its cost, without creating it",
    right: "read",
    bodyLimitBytes: mediumBodyBytes,
    body: DeployHfRequest,
    answer: NewPlacementReport,
    async handler({ caller, body }) {
      return renderDryRun(await placement.dryRunHf(caller, readDeployHf(body)));
    },
  });

  own.post("/v1/deploy", {
    ...common,
    summary: "Deploy a hub model, a model of this installation, or a container image",
    bodyLimitBytes: mediumBodyBytes,
    body: DeployRequestV1,
    async handler({ caller, body }) {
      const created = await deployments.createBy(caller, body.provider ?? "cnt", {
        modelName: body.model_name,
        version: body.version ?? undefined,
        gpu: body.gpu,
        numGpus: body.num_gpus ?? 1,
        maxBatchSize: body.max_batch_size ?? 96,
      });
      return renderDeployment(created);
    },
  });
}

function readDeployHf(body: Static<typeof DeployHfRequest>): HfRequest {
  const scale = body.settings as Scale | null | undefined;
  return {
    modelName: body.model_name,
    repo: (body.repo as string | null | undefined) ?? undefined,
    task: body.task ?? undefined,
    revision: body.revision ?? undefined,
    token: body.token ?? undefined,
    gpu: body.gpu,
    numGpus: body.num_gpus ?? 1,
    maxBatchSize: body.max_batch_size ?? 96,
    minInstances: scale?.min_instances ?? 1,
    maxInstances: scale?.max_instances ?? Math.max(1, scale?.min_instances ?? 1),
    ...newScaling(scale),
  };
}

export function addAdminDeployRoutes(endpoints: Endpoints, { deployments }: DeploymentFeatures): void {
  const admin = endpoints.with({ tag: "operator", access: "admin" });

  admin.put("/v1/admin/deployments/:deploy_id/prefix-cache", {
    summary: "Share a deployment's prefix cache between accounts, or keep accounts apart",
    body: PrefixCacheRequest,
    answer: PrefixCacheAnswer,
    refusals: [404],
    async handler({ caller, params, body, reply }) {
      const id = params.deploy_id as DeploymentId;
      await deployments.sharePrefixCache({
        id,
        isShared: body.shared,
        act: actOf(caller, reply, body.note ?? ""),
      });
      return { deploy_id: id, shared: body.shared };
    },
  });
}
