import type { DeploymentId } from "../../../proto/ids.ts";
import { mediumBodyBytes } from "../body/json-body.ts";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { ExternalServer } from "../models/models-schemas.ts";
import { DeploymentRecord, PrefixCacheAnswer, PrefixCacheRequest } from "./deployment-schemas.ts";
import type { DeploymentFeatures } from "./features.ts";
import { renderDeployment } from "./render-deployment.ts";

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

  admin.post("/v1/admin/external", {
    summary: "Serve an OpenAI-compatible server that already runs as an instance",
    bodyLimitBytes: mediumBodyBytes,
    body: ExternalServer,
    answer: DeploymentRecord,
    refusals: [404, 409],
    handler: async ({ caller, body }) =>
      renderDeployment(
        await deployments.createExternal(caller, {
          name: body.name,
          url: body.url,
          maxBatchSize: body.max_batch_size ?? 96,
          servedName: body.served_name ?? undefined,
          host: body.host_id ?? undefined,
          contextLength: body.context_length ?? undefined,
          task: body.task ?? undefined,
        }),
      ),
  });
}
