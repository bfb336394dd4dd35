import type { DeploymentId } from "../../../proto/ids.ts";
import type { Endpoints } from "../endpoint.ts";
import { BadRange, readRange } from "../read-range.ts";
import { renderSeries, renderStats, renderStats2 } from "../render-stats.ts";
import { DeployId } from "../schemas/deployment.ts";
import {
  DeploymentSeries,
  DeploymentStats,
  DeploymentStats2,
  RequestCounts,
  SeriesRange,
  StatsRange,
  usualSteps,
} from "../schemas/deployment-stats.ts";
import type { HttpDeps } from "../verbs.ts";

const common = { method: "GET", tag: "deployments", access: "key", query: StatsRange } as const;

export function addDeployStatsRoutes(endpoints: Endpoints, { deployments }: Pick<HttpDeps, "deployments">): void {
  endpoints.add({
    ...common,
    path: "/deploy/stats",
    summary: "Requests of each deployment of the account",
    answer: RequestCounts,
    refusals: [429, 503],
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
    refusals: [404, 410, 429, 503],
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
    refusals: [404, 410, 429, 503],
    async handler({ caller, query, params }) {
      const { fromMs, toMs } = readRange(query.from, query.to, Date.now());
      const { deployment, use } = await deployments.use(caller, params.deploy_id as DeploymentId, fromMs, toMs);
      return renderStats2(deployment, use);
    },
  });

  endpoints.add({
    ...common,
    path: "/v1/deployments/:deploy_id/series",
    summary: "The same over time: requests, failures and latencies of each part of a period, and why requests ended",
    query: SeriesRange,
    params: DeployId,
    answer: DeploymentSeries,
    refusals: [404, 410, 429, 503],
    async handler({ caller, query, params }) {
      const { fromMs, toMs } = readRange(query.from, query.to, Date.now());
      if (fromMs === toMs) throw new BadRange("from", "is the same as `to`. Ask for a period.");
      const steps = query.steps ?? usualSteps;
      return renderSeries(
        await deployments.series(caller, params.deploy_id as DeploymentId, fromMs, toMs, steps),
        (toMs - fromMs) / steps,
      );
    },
  });
}
