import type { FastifyReply } from "fastify";
import { type Static, Type } from "typebox";
import type { DeploymentId } from "../../../proto/ids.ts";
import type { LogLine, LogQuery } from "../../deployments/logs.ts";
import { badRequest } from "../../service-error.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { LogEntries, PodLogEntries } from "./deployment-schemas.ts";
import type { DeploymentFeatures } from "./features.ts";

const monthMs = 31 * 24 * 3_600_000;
const limitMs = 15_000;

const times = {
  from: Type.Optional(Type.String({ maxLength: 40, description: "Unix seconds" })),
  to: Type.Optional(Type.String({ maxLength: 40, description: "Unix seconds" })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: 100 })),
};
const range = { deploy_id: Type.String({ maxLength: 64 }), ...times };
export const logRange = Type.Object(times);
const common = { refusals: [400, 404] } as const;

export function addLogRoutes(endpoints: Endpoints, { deployments }: DeploymentFeatures): void {
  const own = endpoints.with({ tag: "deployments", access: "key" });

  own.get("/v1/deployment_logs/query", {
    isOpenToOperators: true,
    ...common,
    summary: "Get log lines of a deployment by instance",
    query: Type.Object({
      ...range,
      pod_name: Type.Optional(Type.String({ maxLength: 64, description: "Only this instance" })),
    }),
    answer: PodLogEntries,
    async handler({ caller, query, reply }) {
      const asked = rangeOf(query.from, query.to, query.limit ?? 100);
      const id = query.deploy_id as DeploymentId;
      const logs = await deployments.instanceLogs(caller, id, asked, boundedBy(reply));
      const shown = [...logs].filter(([pod]) => query.pod_name === undefined || pod === query.pod_name);
      return {
        entries: Object.fromEntries(shown.map(([pod, lines]) => [pod, lines.map(({ at, line }) => [at, line])])),
      };
    },
  });

  own.get("/v1/logs/query", {
    isOpenToOperators: true,
    ...common,
    summary: "Get log lines of a deployment",
    query: Type.Object(range),
    answer: LogEntries,
    handler: ({ caller, query, reply }) =>
      readLogs(query, reply, (range, signal) =>
        deployments.logs(caller, query.deploy_id as DeploymentId, range, signal),
      ),
  });
}

/** Returns the lines of all instances. Throws badRequest for a range that cannot be read. */
export async function readLogs(
  { from, to, limit = 100 }: Static<typeof logRange>,
  reply: FastifyReply,
  read: (range: LogQuery, signal: AbortSignal) => Promise<readonly LogLine[]>,
): Promise<LogEntries> {
  const lines = await read(rangeOf(from, to, limit), boundedBy(reply));
  return { entries: lines.map(({ at, line }) => [at, line]) };
}

/** Aborts when the caller disconnects or the hosts take too long. */
function boundedBy(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once("close", () => gone.abort());
  return AbortSignal.any([gone.signal, AbortSignal.timeout(limitMs)]);
}

/** Without times: the past month. With one: the month from or to it. */
function rangeOf(from: string | undefined, to: string | undefined, limit: number): LogQuery {
  const fromMs = timeOf(from, "from");
  const toMs = timeOf(to, "to");
  if (fromMs === undefined && toMs === undefined) return { limit };
  if (fromMs !== undefined && toMs !== undefined) {
    if (toMs < fromMs) throw badRequest("bad_request", "`to` must not be before `from`.", { param: "to" });
    if (toMs - fromMs > monthMs) {
      throw badRequest("bad_request", "The range must be at most 31 days.", { param: "to" });
    }
  }
  const fromAt = exactTime(from);
  return {
    limit,
    ...(fromMs === undefined ? {} : { fromMs }),
    ...(fromAt === undefined ? {} : { fromAt }),
    ...(toMs === undefined ? {} : { toMs }),
  };
}

/** Returns a time with all nine decimals, which a number cannot hold, in the format of line times. Undefined without decimals. */
function exactTime(text: string | undefined): string | undefined {
  const [seconds = "", decimals] = (text ?? "").split(".");
  return decimals === undefined ? undefined : `${seconds.padStart(10, "0")}.${decimals.padEnd(9, "0")}`;
}

function timeOf(text: string | undefined, param: string): number | undefined {
  if (text === undefined || text === "") return undefined;
  const seconds = /^\d{1,12}(\.\d{1,9})?$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isNaN(seconds)) throw badRequest("bad_request", `\`${param}\` must be a time in unix seconds.`, { param });
  return Math.floor(seconds * 1000);
}
