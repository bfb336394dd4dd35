// What deployments need kept. Implemented by store/deployments-store.ts. Every method that a customer can reach takes the
// account; every write names what it saw.
import type { GpuType } from "../../proto/gpu.ts";
import type { AccountId, AdapterId, DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import type { InstancePhase } from "../../proto/instance-phase.ts";
import type { NodeWeights } from "../fleet/store.ts";
import type { GpuUse } from "../quotas/gpu-limits.ts";
import type { Adapter, AdapterNews } from "./adapter.ts";
import type {
  Deployment,
  DeploymentKind,
  DeploymentStatus,
  Instance,
  PendingReason,
  WeightsSource,
} from "./deployment.ts";
import type { MemoryClaim } from "./expected-memory.ts";
import type { Outcome } from "./lifecycle.ts";
import type { GpuMinimums } from "./place-reserve.ts";
import type { StandardArgs } from "./standard-args.ts";

export type {
  Adapter,
  AdapterNews,
  Deployment,
  DeploymentKind,
  DeploymentStatus,
  GpuMinimums,
  Instance,
  MemoryClaim,
  StandardArgs,
  WeightsSource,
};
export type NewDeployment = Omit<
  Deployment,
  | "status"
  | "failReason"
  | "pendingReasons"
  | "target"
  | "inactiveShutdown"
  | "generation"
  | "spec"
  | "servingSpec"
  | "updateError"
  | "replacements"
  | "replacedAtMs"
  | "awaitedAtMs"
  | "usedAtMs"
  | "rollout"
  | "revision"
  | "createdAtMs"
  | "updatedAtMs"
  | "running"
  | "progress"
  | "hasWeightsToken"
> & {
  readonly weightsToken: Buffer | null;
  readonly inactiveShutdown?: number | null;
  /** Address of who asks, for the audit log. */
  readonly ip?: string;
};

/** A row that this controller alone may write until the lock expires. */
export interface Claimed {
  readonly deployment: Deployment;
  readonly instances: readonly Instance[];
  readonly lockToken: bigint;
}

/** `claimedUntilMs`: Unix ms at which some controller's claim on it ends, if not before; 0: there is none. */
export type Active = Omit<Claimed, "lockToken"> & { readonly claimedUntilMs: number };

export interface NewInstance {
  readonly id: InstanceId;
  readonly hostId: HostId;
  /** Of the host, as the placement saw it. */
  readonly hostRevision: bigint;
  readonly gpus: readonly { readonly uuid: string; readonly memoryBytes: number }[];
  /** Of each of its GPUs; 1 all of it. */
  readonly gpuShare: number;
  /** Of the one GPU it shares; 0: its GPUs are its own. */
  readonly gpuMemoryBytes: number;
  /** Of the host's memory. */
  readonly grantBytes: number;
}

/** What minimums keep of a GPU type, as the placement saw it. */
export interface GpuReserve {
  readonly gpu: GpuType;
  readonly minimums: GpuMinimums;
  /** Moved by every claim of the type that another account's minimum bears on. */
  readonly revision: bigint;
}

/** How often an account has begun to share a GPU of the type, as the placement saw it. */
export interface GpuSharing {
  readonly account: AccountId;
  readonly gpu: GpuType;
  readonly revision: bigint;
}

export interface ReserveStore {
  /** Only minimums above 0, of accounts that may deploy. */
  reserve(gpu: GpuType): Promise<GpuReserve>;
  sharing(account: AccountId, gpu: GpuType): Promise<GpuSharing>;
}

export interface Verdict extends Outcome {
  /** Given when GPUs are claimed that another account's minimum bears on. */
  readonly reserve?: Pick<GpuReserve, "gpu" | "revision"> | undefined;
  /** Given when a GPU is claimed that others of the account may share: not where one was begun at the same time. */
  readonly sharing?: GpuSharing | undefined;
  readonly pendingReasons: readonly PendingReason[];
  readonly placements: readonly NewInstance[];
  readonly tombstones: readonly InstanceId[];
  /** Are to run what is wanted where they are. */
  readonly revised: readonly InstanceId[];
  /** Set when failed ones are replaced: how many were, this one included. */
  readonly replacements: number | undefined;
}

/** What a host says of one instance. */
export interface Observation {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  readonly gpuUuids: readonly string[];
  readonly generation: number;
  readonly phase: InstancePhase;
  readonly failCode: string;
  readonly failMessage: string;
  readonly bytesDone: bigint;
  readonly bytesTotal: bigint;
  readonly restarts: number;
  readonly contextLength: number;
  readonly identity: string;
  /** 0 and empty for what is not reached by SSH. */
  readonly sshPort: number;
  readonly sshAddress: string;
  readonly adapters: readonly AdapterNews[];
}

export type Present = Pick<Observation, "instanceId" | "deployId" | "gpuUuids" | "generation">;

export interface DesiredRow {
  readonly instance: Pick<Instance, "id" | "deployId" | "generation" | "gpuUuids" | "gpuShare" | "gpuMemoryBytes">;
  /** With the arguments that this instance runs. */
  readonly deployment: Deployment;
  /** As its owner said them last. */
  readonly standardArgs: StandardArgs;
  readonly weights: WeightsSource;
  readonly weightsToken: Buffer | null;
  readonly agentInstance: DesiredAgentInstance | undefined;
  /** To be held while it serves. */
  readonly adapters: readonly DesiredAdapter[];
}

export interface DesiredAdapter
  extends Pick<Adapter, "id" | "account" | "repo" | "revision" | "file" | "source" | "commit"> {
  /** Under the account's data key, where the source is no repository. */
  readonly url: Buffer | null;
  readonly token: Buffer | null;
}

/** Of engine agent_instance. */
export interface DesiredAgentInstance {
  readonly image: string;
  readonly port: number;
  /** 0: it has no dashboard. */
  readonly dashboardPort: number;
  readonly volumePath: string;
  readonly cpus: number;
  readonly memoryBytes: number;
}

export interface DesiredRows {
  readonly nodeEpoch: bigint;
  readonly generation: bigint;
  readonly instances: readonly DesiredRow[];
  readonly tombstones: readonly InstanceId[];
  /** Unix ms at which the host is to be empty; 0: it is not being emptied. */
  readonly emptiedByMs: number;
  /** Of the tombstones, those whose deployment goes on. */
  readonly moved: readonly InstanceId[];
  /** Weights the operator wants there ahead of any deployment. */
  readonly prefetch: readonly NodeWeights[];
}

/**
 * Asked inside the write, under the account's lock, with what the account's other deployments take of the type; what it
 * throws comes out with nothing written.
 */
export type GpuCheck = (use: GpuUse) => void;

export interface Change {
  /** Address of who asks, for the audit log. */
  readonly ip?: string;
  readonly status?: DeploymentStatus;
  readonly failReason?: string;
  readonly minInstances?: number;
  readonly maxInstances?: number;
  readonly inactiveShutdown?: number | null;
  /** Instances wanted by load. */
  readonly target?: number;
  /** What is to run from now on; instances are replaced by and by. */
  readonly spec?: {
    readonly extraArgs: readonly string[];
    readonly standardArgs: StandardArgs;
    readonly contextLength: number;
    /** Absent: nobody knows; the claim stays as it was, and its GPUs are not shared. */
    readonly memory?: MemoryClaim;
  };
  /** What instances claim that are placed from now on. */
  readonly memory?: MemoryClaim;
  /** Nothing is written and `has_adapters` told where adapters of it are served or on their way. */
  readonly endsAdapters?: boolean;
  /** Instances let in fewer requests at once from now on; nothing of what runs starts anew. */
  readonly standardArgs?: StandardArgs;
  /** What runs changes where it is: every instance is to run the next generation, at once. */
  readonly isNewGeneration?: boolean;
}

/** How far the next instance of a deployment is. */
export interface ColdStart {
  readonly deployment: Deployment;
  /** Of the live instances. */
  readonly phases: readonly InstancePhase[];
  /** Since the first instance that does not serve yet was placed, or else since one was asked for. */
  readonly elapsedMs: number;
  /** How long a start took of late; 0 unknown. */
  readonly startMs: number;
}

/** What requests on one deployment came to. Percentiles and means over those that began; 0 where there was none. */
export interface UseStats {
  readonly requests: number;
  readonly errors: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly totalMs: number;
  readonly averageMs: number;
  readonly p95Ms: number;
  /** To the first byte. */
  readonly averageFirstMs: number;
  readonly p95FirstMs: number;
  /** Per token after the first. */
  readonly averageTokenMs: number;
  readonly p95TokenMs: number;
  /** GPU minutes included. */
  readonly chargeNano: bigint;
}

/** What requests on one deployment came to in each part of a period, and why they ended. */
export interface UseSeries {
  readonly steps: readonly {
    /** Unix ms at which it begins. */
    readonly fromMs: number;
    readonly requests: number;
    readonly errors: number;
    readonly outputTokens: number;
    /** To the first byte, of requests that had one; null: there was none. */
    readonly firstMs: { readonly p50: number; readonly p95: number } | null;
    readonly totalMs: { readonly p50: number; readonly p95: number } | null;
    readonly queueP95Ms: number | null;
  }[];
  /** Requests by EndReason of proto/usage.ts, the most frequent first. */
  readonly endReasons: readonly { readonly reason: string; readonly requests: number }[];
}

export interface DeploymentStatsStore {
  /** Of all the account's deployments that were asked in [fromMs, toMs), the busiest first. Each throws ReportTooLong. */
  requests(
    account: AccountId,
    fromMs: number,
    toMs: number,
  ): Promise<readonly { readonly modelName: string; readonly requests: number }[]>;
  /** Of one deployment of the account's. */
  use(id: DeploymentId, account: AccountId, fromMs: number, toMs: number): Promise<UseStats>;
  /** The same in `steps` equal parts; parts without a request are there too. */
  series(id: DeploymentId, account: AccountId, fromMs: number, toMs: number, steps: number): Promise<UseSeries>;
}

/** `name_taken`: the account has a live deployment of that name; `account_gone`: it was deleted meanwhile. */
export type InsertRefusal = "name_taken" | "account_gone";

export interface DeploymentStore {
  insert(deployment: NewDeployment, check: GpuCheck): Promise<Deployment | InsertRefusal>;
  /** What `insert` would say now; nothing is written. */
  refusalOf(deployment: NewDeployment, check: GpuCheck): Promise<InsertRefusal | undefined>;
  /** Of any kind. */
  get(id: DeploymentId, account: AccountId): Promise<Deployment | undefined>;
  /** Of every kind and in every status without them; of those that were deleted the last 1,000 alone. */
  list(
    account: AccountId,
    kind: DeploymentKind | undefined,
    statuses: readonly DeploymentStatus[] | undefined,
  ): Promise<readonly Deployment[]>;
  /** Sealed under the account's data key; null: it has none. */
  weightsToken(id: DeploymentId, account: AccountId): Promise<Buffer | null>;
  /** Instances that are not on their way out; of all deployments without an id. */
  instances(id: DeploymentId | undefined): Promise<readonly Instance[]>;
  /** False when the row moved since `ifRevision`, or its new name is taken: look again. */
  change(
    id: DeploymentId,
    account: AccountId,
    ifRevision: bigint,
    change: Change,
    check?: GpuCheck,
  ): Promise<boolean | "has_adapters">;

  /** Deployments that should run, or of which something is left; all, or the named ones. */
  active(ids: readonly DeploymentId[] | undefined): Promise<readonly Active[]>;
  /**
   * Somebody waits for an instance: counts as use of it, and asks for one instance where none is wanted. One guarded write,
   * whoever else asks meanwhile.
   */
  wake(id: DeploymentId, account: AccountId): Promise<void>;
  /** They are in use now: one write for all of them, by the loop that looks at every deployment. */
  noteUse(ids: readonly DeploymentId[]): Promise<void>;
  /** Undefined when there is no such deployment. */
  coldStart(id: DeploymentId, account: AccountId): Promise<ColdStart | undefined>;

  /** Undefined when another controller holds it. */
  claim(id: DeploymentId, owner: string, ttlMs: number): Promise<Claimed | undefined>;
  /** False when the claim, the deployment or a host moved meanwhile: nothing was written. */
  commit(claimed: Claimed, verdict: Verdict): Promise<boolean>;
  release(claimed: Claimed): Promise<void>;

  /**
   * `isFenced` when a newer session exists: nothing was written. `present`: all that runs there; what is unknown of it comes
   * back, is kept with the host, and gets its tombstone again where it had ended.
   */
  observe(
    host: HostId,
    nodeEpoch: bigint,
    observations: readonly Observation[],
    removed: readonly InstanceId[],
    present: readonly Present[],
  ): Promise<{ readonly isFenced: boolean; readonly unknown: readonly InstanceId[] }>;
  /** Undefined when the host is unknown. */
  desired(host: HostId): Promise<DesiredRows | undefined>;
}

export type NewAdapter = Pick<
  Adapter,
  | "id"
  | "account"
  | "name"
  | "baseDeployId"
  | "baseModel"
  | "source"
  | "repo"
  | "revision"
  | "file"
  | "commit"
  | "isPrivate"
  | "description"
> & { readonly isBasePublic: boolean; readonly url: Buffer | null; readonly token: Buffer | null };

/** `name_taken`: a live deployment or adapter of the account has it; `too_many`: above `most` of the account. */
export type AdapterRefusal = "name_taken" | "account_gone" | "too_many" | "base_takes_none";

/** Where an adapter stands for callers that wait for it. `full`: all places are taken by adapters that were used just now. */
export type AdapterStanding = "wanted" | "trouble" | "full" | "failed" | "gone";

export interface AdapterStore {
  /** It is wanted at once while the base has fewer than `room`. */
  insert(next: NewAdapter, most: number, room: number): Promise<Adapter | AdapterRefusal>;
  /** By name the live one, or else the last that failed. */
  find(name: string, account: AccountId): Promise<Adapter | undefined>;
  get(id: AdapterId, account: AccountId): Promise<Adapter | undefined>;
  /** Newest first; not those that were deleted. Of one base, as it was named. */
  list(account: AccountId, baseModel: string | undefined): Promise<readonly Adapter[]>;
  change(
    id: AdapterId,
    account: AccountId,
    change: { readonly isPrivate?: boolean; readonly description?: string },
  ): Promise<boolean>;
  /** False when it was gone. Hosts unload it. */
  remove(id: AdapterId, account: AccountId): Promise<boolean>;
  /** It was used; written down now and then. */
  used(id: AdapterId, account: AccountId): Promise<void>;
  /** Somebody waits for it: it is wanted from now on, in the place of the one used longest ago where there is no room, by number or as a host says. */
  want(id: AdapterId, account: AccountId, mostHeld: (engine: string, task: string) => number): Promise<AdapterStanding>;
  /** Drops those not used for so long, follows bases to other deployments, ends those whose base is gone. Returns of how many. */
  tend(idleMs: number): Promise<number>;
}

/** A run like others before it: nothing else changes what it takes. */
export type MemoryRun = Pick<
  Deployment,
  "version" | "engine" | "gpu" | "numGpus" | "maxBatchSize" | "contextLength" | "extraArgs"
>;

/** What instances were seen to take of their GPUs, by what they run. */
export interface MeasuredMemoryStore {
  /** Writes down what those that serve hold now; returns of how many kinds. */
  look(): Promise<number>;
  /** The most that such a run ever held, over all its GPUs; undefined: none was seen. */
  find(run: MemoryRun): Promise<number | undefined>;
}
