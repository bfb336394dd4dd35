import type { AgentInstances } from "../../agent-instances/agent-instances.ts";
import type { AgentBackups } from "../../agent-instances/backups.ts";
import type { Providers } from "../../billing/providers.ts";
import type { ModelDirectory } from "../../catalog/served-model.ts";
import type { Containers } from "../../containers/containers.ts";
import type { Adapters } from "../../deployments/adapters.ts";
import type { Deployments } from "../../deployments/deployments.ts";
import type { PlacementPreview } from "../../deployments/placement-preview.ts";
import type { Terminals } from "../../terminals/terminals.ts";

export interface DeploymentFeatures {
  readonly deployments: Deployments;
  readonly placement: PlacementPreview;
  readonly providers: Pick<Providers, "list" | "set">;
  readonly adapters: Adapters;
  readonly containers: Containers;
  readonly agentInstances: AgentInstances;
  readonly agentBackups: Omit<AgentBackups, "settle" | "maintain" | "sweepDeleted">;
  readonly terminals: Terminals;
  readonly spine: { readonly models: ModelDirectory };
}
