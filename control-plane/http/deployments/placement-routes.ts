import { Type } from "typebox";
import type { DeploymentId } from "../../../proto/ids.ts";
import { nano, toUsd } from "../../../proto/money.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { GpuAvailability } from "./container-schemas.ts";
import { PlacementReport } from "./deployment-schemas.ts";
import type { DeploymentFeatures } from "./features.ts";

export function addPlacementRoutes(endpoints: Endpoints, { placement }: DeploymentFeatures): void {
  const own = endpoints.with({ tag: "deployments", access: "key" });

  own.get("/deploy/llm/gpu_availability", {
    summary: "List GPU configurations for models with their availability and price",
    query: Type.Object({
      source: Type.Optional(Type.String({ maxLength: 256, description: "Weights repository for which to recommend" })),
      base_model: Type.Optional(Type.String({ maxLength: 256, description: "Public model for which to recommend" })),
    }),
    answer: GpuAvailability,
    refusals: [404],
    async handler({ caller, query }) {
      const gpus = await placement.gpus(caller, { source: query.source ?? "", baseModel: query.base_model ?? "" });
      return {
        gpus: gpus.map(({ gpu, count, hourRate, isAvailable, isRecommended }) => ({
          gpu_config: `${count}x${gpu}`,
          usd_per_hour: toUsd(nano(hourRate)),
          available: isAvailable,
          recommended: isRecommended,
        })),
      };
    },
  });

  own.get("/deploy/:deploy_id/placement", {
    summary: "Check whether one more instance would fit, and why hosts refuse it",
    answer: PlacementReport,
    refusals: [404],
    async handler({ caller, params }) {
      const { host, refused } = await placement.dryRun(caller, params.deploy_id as DeploymentId);
      return { fits: host !== undefined, refused: refused.map(({ host, why }) => ({ host, why })) };
    },
  });
}
