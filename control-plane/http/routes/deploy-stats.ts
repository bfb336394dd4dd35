import type { DeploymentId } from "../../../proto/ids.ts";
import type { Endpoints } from "../endpoint.ts";
import { readRange } from "../read-range.ts";
import { renderStats, renderStats2 } from "../render-stats.ts";
import { DeployId } from "../schemas/deployment.ts";
import { DeploymentStats, DeploymentStats2, RequestCounts, StatsRange } from "../schemas/deployment-stats.ts";
import type { HttpDeps } from "../verbs.ts";

const common = { method: "GET", tag: "deployments", access: "key", query: StatsRange } as const;

export function addDeployStatsRoutes(endpoints: Endpoints, { deployments }: Pick<HttpDeps, "deployments">): void {
  endpoints.add({
    ...common,
    path: "/deploy/stats",
    summary: "Requests of each deployment of the account",
    answer: RequestCounts,
    refusals: [503],
    async handler({ caller, query }) {
      const { fromMs, toMs } = readRange(query.from, query.to, Date.now());
      const counts = await deployments.requestCounts(caller, fromMs, toMs);
      return counts.map(({ modelName, requests }) => ({ model_name: modelName, requests }));
    },
  });

  endpoints.add({
    ...common,
    path: "/deploy/:deploy_id/stats",
    summary: "What requests on one deployment came to",
    params: DeployId,
    answer: DeploymentStats,
    refusals: [404, 410, 503],
    async handler({ caller, query, params }) {
      const { fromMs, toMs } = readRange(query.from, query.to, Date.now());
      return renderStats((await deployments.use(caller, params.deploy_id as DeploymentId, fromMs, toMs)).use);
    },
  });

  endpoints.add({
    ...common,
    path: "/deploy/:deploy_id/stats2",
    summary: "The same by kind of task",
    params: DeployId,
    answer: DeploymentStats2,
    refusals: [404, 410, 503],
    async handler({ caller, query, params }) {
      const { fromMs, toMs } = readRange(query.from, query.to, Date.now());
      const { deployment, use } = await deployments.use(caller, params.deploy_id as DeploymentId, fromMs, toMs);
      return renderStats2(deployment, use);
    },
  });
}
