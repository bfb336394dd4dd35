// What a host does now, as its last report said. Undefined fields: the host does not tell.
import type { DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";

export interface HostLive {
  readonly load: HostLoad | undefined;
  readonly gpus: readonly GpuLive[];
  /** Of the GPUs' figures when the report was made. */
  readonly gpuSampleAgeMs: number;
  readonly spool: { readonly records: number; readonly bytes: number; readonly oldestAgeSeconds: number };
  /** The host's clock minus ours. */
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
  /** Requests that ended there since its agent started; absent in what an older version wrote down. */
  readonly finished?: number | undefined;
  /** Requests for which there was no place, likewise. */
  readonly turnedAway?: number | undefined;
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

/** The newer of what this replica heard and what another one wrote down. */
export function newerLive(one: AgedLive | undefined, other: AgedLive | undefined): AgedLive | undefined {
  if (!one || !other) return one ?? other;
  return one.ageMs <= other.ageMs ? one : other;
}

/** Figures older than this tell nothing of now. */
export const freshMs = 15_000;

/** Requests that run and wait, by instance; of hosts that said so of late. */
export function requestsAt(hosts: Iterable<AgedLive>): ReadonlyMap<InstanceId, number> {
  const fresh = [...hosts].filter(({ ageMs }) => ageMs <= freshMs).flatMap(({ live }) => live.instances);
  return new Map(fresh.map(({ instanceId, inFlight, waiting }) => [instanceId, inFlight + waiting]));
}

export interface LiveFigures {
  saw(host: HostId, live: HostLive): void;
  of(host: HostId): AgedLive | undefined;
}

/** Of the hosts whose sessions this replica holds. */
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
