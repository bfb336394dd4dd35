import type { TargetHealth } from "../../inference/target-health.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { addAdapterRoutes } from "./adapters-routes.ts";
import { addAgentInstanceRoutes } from "./agent-instances-routes.ts";
import { addContainerRoutes } from "./containers-routes.ts";
import { addAdminDeployRoutes, addDeployHubRoutes } from "./deploy-hub-routes.ts";
import { addDeployRoutes, addPlacementRoutes } from "./deploy-routes.ts";
import { addDeployStatsRoutes } from "./deploy-stats-routes.ts";
import { addExternalRoutes } from "./external-routes.ts";
import type { DeploymentFeatures } from "./features.ts";
import { addLogRoutes } from "./logs-routes.ts";
import { addTerminalRoutes } from "./terminal-routes.ts";

export function addDeployments(
  endpoints: Endpoints,
  features: DeploymentFeatures,
  health: Pick<TargetHealth, "stateOf">,
): void {
  addAdapterRoutes(endpoints, features);
  addDeployRoutes(endpoints, features);
  addPlacementRoutes(endpoints, features);
  addDeployHubRoutes(endpoints, features);
  addDeployStatsRoutes(endpoints, features);
  addContainerRoutes(endpoints, features);
  addAgentInstanceRoutes(endpoints, features);
  addTerminalRoutes(endpoints, features);
  addLogRoutes(endpoints, features);
  addAdminDeployRoutes(endpoints, features);
  addExternalRoutes(endpoints, features, health);
}
