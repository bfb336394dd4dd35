// Log lines of a deployment's instances, fetched from the agents that run them.
import type { HostId, InstanceId } from "../../proto/ids.ts";
import { logsUnavailable } from "./errors.ts";
import type { Deployment, DeploymentStore } from "./store.ts";

export interface LogLine {
  /** Unix seconds with nanoseconds as text, e.g. `1682343934.123456789`. */
  readonly at: string;
  readonly line: string;
}

export interface LogQuery {
  readonly fromMs?: number;
  /** The same in nanoseconds; lines up to this time are excluded. */
  readonly fromAt?: string;
  readonly toMs?: number;
  /** 1 to 1000. */
  readonly limit: number;
}

/** Fetches logs from one host. Throws when it does not respond. */
export type FetchLogs = (
  host: HostId,
  instance: InstanceId,
  query: LogQuery,
  signal: AbortSignal,
) => Promise<readonly LogLine[]>;

/** Lines per instance, ascending. Instances of unresponsive hosts are omitted; if none responds: ServiceError. */
export async function readLogs(
  deps: { readonly store: Pick<DeploymentStore, "instances">; readonly fetchLogs: FetchLogs },
  deployment: Pick<Deployment, "id">,
  query: LogQuery,
  signal: AbortSignal,
): Promise<ReadonlyMap<InstanceId, readonly LogLine[]>> {
  const instances = await deps.store.instances(deployment.id);
  const answers = await Promise.allSettled(
    instances.map(async (instance) => ({
      id: instance.id,
      lines: await deps.fetchLogs(instance.hostId, instance.id, query, signal),
    })),
  );
  const lines = new Map<InstanceId, readonly LogLine[]>();
  for (const answer of answers) if (answer.status === "fulfilled") lines.set(answer.value.id, answer.value.lines);
  const failed = answers.find((answer) => answer.status === "rejected");
  if (lines.size === 0 && failed) {
    throw logsUnavailable("The host of this deployment is not responding. Try again in a few seconds.", {
      cause: failed.reason,
      retryAfterSeconds: 5,
    });
  }
  return lines;
}

/** Merges all instances: the last lines, or the first ones after `fromMs` when only that is given. */
export function mergeLogs(logs: ReadonlyMap<InstanceId, readonly LogLine[]>, query: LogQuery): readonly LogLine[] {
  const { fromAt = "" } = query;
  // An older agent reads from the millisecond on.
  const all = [...logs.values()]
    .flat()
    .filter(({ at }) => at >= fromAt)
    .sort(byTime);
  const isForward = query.fromMs !== undefined && query.toMs === undefined;
  return isForward ? all.slice(0, query.limit) : all.slice(-query.limit);
}

function byTime(a: LogLine, b: LogLine): number {
  const [aSeconds = "", aFraction = ""] = a.at.split(".");
  const [bSeconds = "", bFraction = ""] = b.at.split(".");
  return Number(aSeconds) - Number(bSeconds) || aFraction.padEnd(9, "0").localeCompare(bFraction.padEnd(9, "0"));
}
