import { Type } from "typebox";
import type { DeploymentId } from "../../../proto/ids.ts";
import type { LogQuery } from "../../deployments/logs.ts";
import type { Endpoints } from "../endpoint.ts";
import { BadRequest } from "../errors.ts";
import { LogEntries } from "../schemas/deployment.ts";
import type { HttpDeps } from "../verbs.ts";

const monthMs = 31 * 24 * 3_600_000;
const limitMs = 15_000;

export function addLogRoutes(endpoints: Endpoints, { deployments }: Pick<HttpDeps, "deployments">): void {
  endpoints.add({
    method: "GET",
    path: "/v1/logs/query",
    summary: "Log lines of a deployment",
    tag: "deployments",
    access: "key",
    query: Type.Object({
      deploy_id: Type.String(),
      from: Type.Optional(Type.String({ description: "Unix seconds" })),
      to: Type.Optional(Type.String({ description: "Unix seconds" })),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: 100 })),
    }),
    answer: LogEntries,
    refusals: [400, 404, 503],
    async handler({ caller, query, reply }) {
      const gone = new AbortController();
      reply.raw.once("close", () => gone.abort());
      const signal = AbortSignal.any([gone.signal, AbortSignal.timeout(limitMs)]);
      const range = rangeOf(query.from, query.to, query.limit ?? 100);
      const lines = await deployments.logs(caller, query.deploy_id as DeploymentId, range, signal);
      return { entries: lines.map(({ at, line }) => [at, line]) };
    },
  });
}

/** No times: the past month. One alone: a month from there. */
function rangeOf(from: string | undefined, to: string | undefined, limit: number): LogQuery {
  const fromMs = timeOf(from, "from");
  const toMs = timeOf(to, "to");
  if (fromMs === undefined && toMs === undefined) return { limit };
  if (fromMs !== undefined && toMs !== undefined) {
    if (toMs < fromMs) throw new BadRequest("`to` lies before `from`.", { param: "to" });
    if (toMs - fromMs > monthMs) {
      throw new BadRequest("The range is longer than a month. Ask for a shorter one.", { param: "to" });
    }
  }
  return { limit, ...(fromMs === undefined ? {} : { fromMs }), ...(toMs === undefined ? {} : { toMs }) };
}

function timeOf(text: string | undefined, param: string): number | undefined {
  if (text === undefined || text === "") return undefined;
  const seconds = /^\d{1,12}(\.\d{1,9})?$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isNaN(seconds)) throw new BadRequest(`\`${param}\` is not a time in unix seconds.`, { param });
  return Math.floor(seconds * 1000);
}
