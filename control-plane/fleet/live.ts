// Current activity of a host, from its last report. Undefined fields: not reported.
import type { DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";

export interface HostLive {
  readonly load: HostLoad | undefined;
  readonly gpus: readonly GpuLive[];
  /** Age of the GPU figures at the time of the report. */
  readonly gpuSampleAgeMs: number;
  readonly spool: { readonly records: number; readonly bytes: number; readonly oldestAgeSeconds: number };
  /** The host's clock minus this clock. */
  readonly clockSkewSeconds: number;
  readonly instances: readonly InstanceLive[];
}

export interface HostLoad {
  readonly cpuRatio: number;
  readonly memoryUsedBytes: number;
  readonly memoryTotalBytes: number;
  readonly diskFreeBytes: number;
  readonly diskTotalBytes: number;
}

export interface GpuLive {
  readonly uuid: string;
  readonly utilizationRatio?: number | undefined;
  readonly memoryUsedBytes?: number | undefined;
  readonly memoryTotalBytes?: number | undefined;
  readonly temperatureCelsius?: number | undefined;
  readonly powerWatts?: number | undefined;
  readonly powerLimitWatts?: number | undefined;
  readonly smClockHertz?: number | undefined;
  readonly processes: readonly {
    readonly pid: number;
    readonly name: string;
    readonly memoryBytes: number;
    readonly instanceId: string;
  }[];
}

export interface InstanceLive {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  readonly phase: string;
  readonly inFlight: number;
  readonly waiting: number;
  /** Requests that ended since its agent started; undefined in rows of older versions. */
  readonly finished?: number | undefined;
  /** Requests refused for lack of capacity, likewise. */
  readonly turnedAway?: number | undefined;
  /** Time in the queue of requests of the last 15 s; undefined: none, or an older agent. */
  readonly queueP95Ms?: number | undefined;
  /** Time from arrival to first token of streams, likewise. */
  readonly ttftP95Ms?: number | undefined;
  readonly tokensPerSecond: number;
  readonly restarts: number;
  readonly memoryBytes: number;
  readonly gpuUuids: readonly string[];
  readonly cpuRatio?: number | undefined;
  readonly kvCacheRatio?: number | undefined;
}

export interface AgedLive {
  readonly live: HostLive;
  readonly ageMs: number;
}

/** Returns the newer of this replica's report and another replica's. */
export function newerLive(one: AgedLive | undefined, other: AgedLive | undefined): AgedLive | undefined {
  if (!one || !other) return one ?? other;
  return one.ageMs <= other.ageMs ? one : other;
}

/** Older figures count as stale. */
export const freshMs = 15_000;

/** Running and waiting requests by instance, for hosts with recent reports. */
export function requestsAt(hosts: Iterable<AgedLive>): ReadonlyMap<InstanceId, number> {
  const fresh = [...hosts].filter(({ ageMs }) => ageMs <= freshMs).flatMap(({ live }) => live.instances);
  return new Map(fresh.map(({ instanceId, inFlight, waiting }) => [instanceId, inFlight + waiting]));
}

export interface LiveFigures {
  saw(host: HostId, live: HostLive): void;
  of(host: HostId): AgedLive | undefined;
}

/** Figures of hosts whose sessions this replica holds. */
export function createLiveFigures(monotonicMs: () => number): LiveFigures {
  const known = new Map<HostId, { readonly live: HostLive; readonly atMs: number }>();
  return {
    saw: (host, live) => void known.set(host, { live, atMs: monotonicMs() }),
    of(host) {
      const found = known.get(host);
      return found && { live: found.live, ageMs: monotonicMs() - found.atMs };
    },
  };
}
