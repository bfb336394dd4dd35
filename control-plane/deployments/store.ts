// Storage of deployments. Implemented by store/deployments/deployments-store.ts. Every method that a customer can reach takes the
// account; every write is guarded by the revision it read.
import type { FormatSkill } from "../../proto/api-formats.ts";
import type { GpuType } from "../../proto/gpu.ts";
import type { AccountId, AdapterId, DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import type { InstancePhase } from "../../proto/instance-phase.ts";
import type { Act } from "../act.ts";
import type { NodeWeights } from "../fleet/store.ts";
import type { GpuUse } from "../quotas/gpu-limits.ts";
import type { Adapter, AdapterNews } from "./adapter.ts";
import type {
  Deployment,
  DeploymentKind,
  DeploymentStatus,
  Instance,
  PendingReason,
  StandardArgs,
  WeightsSource,
} from "./deployment.ts";
import type { MeasuredMemoryStore, MemoryClaim } from "./expected-memory.ts";
import type { Outcome } from "./lifecycle.ts";
import type { GpuMinimums } from "./place-reserve.ts";
import type { Scaling } from "./scaling.ts";

export type {
  Adapter,
  AdapterNews,
  Deployment,
  DeploymentKind,
  DeploymentStatus,
  GpuMinimums,
  Instance,
  MeasuredMemoryStore,
  MemoryClaim,
  Scaling,
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
  | "scaling"
  | "startMs"
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
  readonly scaling?: Scaling;
  /** Actor for the audit log; default: the account. */
  readonly act?: Act;
};

/** Values of a deployment with one instance, without weights, arguments and memory of its own. */
export const singleInstance = {
  version: "",
  type: "legacy",
  numGpus: 0,
  maxBatchSize: 1,
  minInstances: 1,
  maxInstances: 1,
  weights: { repo: "", revision: "" },
  weightsToken: null,
  extraArgs: [],
  externalUrl: null,
  contextLength: 0,
  memoryBytes: 0,
} as const satisfies Partial<NewDeployment>;

/** A row that only this controller may write until the lock expires. */
export interface Claimed {
  readonly deployment: Deployment;
  readonly instances: readonly Instance[];
  readonly lockToken: bigint;
}

/** `claimedUntilMs`: Unix ms at which another controller's claim expires; 0: unclaimed. */
export type Active = Omit<Claimed, "lockToken"> & { readonly claimedUntilMs: number };

export interface NewInstance {
  readonly id: InstanceId;
  readonly hostId: HostId;
  /** Revision of the host, as the placement read it. */
  readonly hostRevision: bigint;
  /** `claimBytes`: what it claims of the GPU with a claimant. */
  readonly gpus: readonly { readonly uuid: string; readonly memoryBytes: number; readonly claimBytes?: number }[];
  /** Share of each of its GPUs; 1: all. */
  readonly gpuShare: number;
  /** Holder of its claims, if not its account: others use its GPUs while it sleeps. */
  readonly claimant?: AccountId;
  /** Memory on its shared GPU; 0: exclusive GPUs. */
  readonly gpuMemoryBytes: number;
  /** Granted host memory. */
  readonly grantBytes: number;
}

/** GPUs of a type reserved by minimums, as the placement read them. */
export interface GpuReserve {
  readonly gpu: GpuType;
  readonly minimums: GpuMinimums;
  /** Raised by every claim of the type while another account has a minimum. */
  readonly revision: bigint;
}

/** Number of times an account started to share a GPU of the type, as the placement read it. */
export interface GpuSharing {
  readonly account: AccountId;
  readonly gpu: GpuType;
  readonly revision: bigint;
}

export interface ReserveStore {
  /** Only minimums above 0, of accounts that may deploy. */
  reserve(gpu: GpuType): Promise<GpuReserve>;
  /** In the order of `keys`. */
  sharing(keys: readonly Pick<GpuSharing, "account" | "gpu">[]): Promise<readonly GpuSharing[]>;
}

export interface Verdict extends Outcome {
  /** Set when the claimed GPUs are subject to another account's minimum. */
  readonly reserve?: Pick<GpuReserve, "gpu" | "revision"> | undefined;
  /** Set when its GPU may be shared. If it would be the first on its GPU, the commit fails when another GPU became shared. */
  readonly sharing?: GpuSharing | undefined;
  readonly pendingReasons: readonly PendingReason[];
  readonly placements: readonly NewInstance[];
  readonly tombstones: readonly InstanceId[];
  /** Instances that change their specification in place. */
  readonly revised: readonly InstanceId[];
  /** Set when failed instances are replaced: the count including this replacement. */
  readonly replacements: number | undefined;
}

/** A claimed deployment, and what to write for it. */
export interface Decision {
  readonly claimed: Claimed;
  readonly verdict: Verdict;
}

/** Maximum deployments of one claim and one commit: their hosts are locked for about 100 ms. */
export const maxGroup = 200;

/** A host's report of one instance. */
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
  /** 0 and empty when it has no SSH access. */
  readonly sshPort: number;
  readonly sshAddress: string;
  readonly adapters: readonly AdapterNews[];
  /** Formats besides chat that its engine speaks. */
  readonly formats: readonly FormatSkill[];
  /** Requests that an external server takes at once, as it reports; null: unknown. */
  readonly serverBatchSize: number | null;
}

export type Present = Pick<Observation, "instanceId" | "deployId" | "gpuUuids" | "generation">;

export interface DesiredRow {
  readonly instance: Pick<Instance, "id" | "deployId" | "generation" | "gpuUuids" | "gpuShare" | "gpuMemoryBytes"> & {
    /** Unix ms when it was last chosen to wake for a waiting caller; 0: never. */
    readonly awaitedAtMs: number;
  };
  /** With the arguments of this instance's specification. */
  readonly deployment: Deployment;
  /** The owner's current settings. */
  readonly standardArgs: StandardArgs;
  readonly weights: WeightsSource;
  readonly weightsToken: Buffer | null;
  readonly agentInstance: DesiredAgentInstance | undefined;
  /** Adapters to load while it serves. */
  readonly adapters: readonly DesiredAdapter[];
}

export interface DesiredAdapter
  extends Pick<Adapter, "id" | "account" | "repo" | "revision" | "file" | "source" | "commit"> {
  /** Sealed with the account's data key; null: the source is a repository. */
  readonly url: Buffer | null;
  readonly token: Buffer | null;
}

/** Set for engine agent_instance. */
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
  /** Unix ms at which the host must be empty; 0: it is not being drained. */
  readonly emptiedByMs: number;
  /** Tombstones whose deployment continues elsewhere. */
  readonly moved: readonly InstanceId[];
  /** Weights that the operator prefetches. */
  readonly prefetch: readonly NodeWeights[];
}

/**
 * Called within the write, under the account's lock, with the GPUs of the type used by the account's other deployments; when
 * it throws, nothing is written.
 */
export type GpuCheck = (use: GpuUse) => void;

export interface Change {
  /** Person who asked for the new status or generation, for the audit log. Absent: Stoker itself. */
  readonly act?: Act;
  readonly status?: DeploymentStatus;
  readonly failReason?: string;
  readonly minInstances?: number;
  readonly maxInstances?: number;
  readonly inactiveShutdown?: number | null;
  readonly sleepAfterSeconds?: number;
  readonly scaling?: Scaling;
  /** Desired instances by load. */
  readonly target?: number;
  /** New specification; instances are replaced gradually. */
  readonly spec?: {
    readonly extraArgs: readonly string[];
    readonly standardArgs: StandardArgs;
    readonly contextLength: number;
    /** Undefined: unknown; the claim is kept and its GPUs are not shared. */
    readonly memory?: MemoryClaim;
  };
  /** Claim of instances placed from now on. */
  readonly memory?: MemoryClaim;
  /** When adapters of it exist, writes nothing and returns `has_adapters`. */
  readonly endsAdapters?: boolean;
  /** Lowers the concurrent requests of instances without restarting them. */
  readonly standardArgs?: StandardArgs;
  /** Moves every instance to the next generation in place, at once. */
  readonly isNewGeneration?: boolean;
}

/** Start progress of a deployment's next instance. */
export interface ColdStart {
  readonly deployment: Deployment;
  /** Phases of the live instances. */
  readonly phases: readonly InstancePhase[];
  /** Since the first non-serving instance was placed, or since one was requested. */
  readonly elapsedMs: number;
  /** Duration of a recent start; 0: unknown. */
  readonly startMs: number;
}

/** Statistics of requests on one deployment. Percentiles and means over those that started; 0 without requests. */
export interface UseStats {
  readonly requests: number;
  readonly errors: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly totalMs: number;
  readonly averageMs: number;
  readonly p95Ms: number;
  /** Time to the first byte. */
  readonly averageFirstMs: number;
  readonly p95FirstMs: number;
  /** Per token after the first. */
  readonly averageTokenMs: number;
  readonly p95TokenMs: number;
  /** GPU minutes included. */
  readonly chargeNano: bigint;
}

/** Statistics per interval of a period, and the reasons why requests ended. */
export interface UseSeries {
  readonly steps: readonly {
    /** Start of the interval, Unix ms. */
    readonly fromMs: number;
    readonly requests: number;
    readonly errors: number;
    readonly outputTokens: number;
    /** Time to the first byte; null: no request had one. */
    readonly firstMs: { readonly p50: number; readonly p95: number } | null;
    readonly totalMs: { readonly p50: number; readonly p95: number } | null;
    readonly queueP95Ms: number | null;
  }[];
  /** Requests by EndReason of proto/usage.ts, the most frequent first. */
  readonly endReasons: readonly { readonly reason: string; readonly requests: number }[];
}

export interface DeploymentStatsStore {
  /** The account's deployments with requests in [fromMs, toMs), the busiest first. Each method throws ReportTooLong. */
  requests(
    account: AccountId,
    fromMs: number,
    toMs: number,
  ): Promise<readonly { readonly modelName: string; readonly requests: number }[]>;
  /** For one deployment of the account. */
  use(id: DeploymentId, account: AccountId, fromMs: number, toMs: number): Promise<UseStats>;
  /** The same in `steps` equal intervals, including empty ones. */
  series(id: DeploymentId, account: AccountId, fromMs: number, toMs: number, steps: number): Promise<UseSeries>;
}

/** Sets whether accounts may reuse each other's evaluated prompts on a deployment. */
export interface PrefixCacheChange {
  readonly id: DeploymentId;
  readonly isShared: boolean;
  readonly act: Act;
}

/** `name_taken`: the account has a live deployment of that name; `account_gone`: it was deleted in the meantime. */
export type InsertRefusal = "name_taken" | "account_gone";

/** Arguments that a deployment's instances were started with. */
export interface DeploymentVersion {
  readonly version: number;
  readonly extraArgs: readonly string[];
  readonly standardArgs: StandardArgs;
  /** Tokens; 0: the model's own. */
  readonly contextLength: number;
  readonly createdAtMs: number;
  /** Its instances are to run it. */
  readonly isDesired: boolean;
  /** Instances of it serve while an update runs. */
  readonly isServing: boolean;
}

export interface DeploymentStore {
  insert(deployment: NewDeployment, check: GpuCheck): Promise<Deployment | InsertRefusal>;
  /** Returns the refusal that `insert` would return; writes nothing. */
  refusalOf(deployment: NewDeployment, check: GpuCheck): Promise<InsertRefusal | undefined>;
  /** A deployment of any kind. */
  get(id: DeploymentId, account: AccountId): Promise<Deployment | undefined>;
  /** Every kind and status by default; of deleted ones only the last 1,000. */
  list(
    account: AccountId,
    kind: DeploymentKind | undefined,
    statuses: readonly DeploymentStatus[] | undefined,
  ): Promise<readonly Deployment[]>;
  /** Sealed with the account's data key; null: it has none. */
  weightsToken(id: DeploymentId, account: AccountId): Promise<Buffer | null>;
  /** Instances without a tombstone; without an id those of all deployments. */
  instances(id: DeploymentId | undefined): Promise<readonly Instance[]>;
  /** Returns false when the row changed since `ifRevision`. `name_taken`: a failed deployment's name is in use again. */
  change(
    id: DeploymentId,
    account: AccountId,
    ifRevision: bigint,
    change: Change,
    check?: GpuCheck,
  ): Promise<boolean | "has_adapters" | "name_taken">;

  /** The newest 100 specifications that the deployment had, the newest first; undefined: no such deployment. */
  versions(id: DeploymentId, account: AccountId): Promise<readonly DeploymentVersion[] | undefined>;

  /** Notifies the deployment's hosts; audited. False when there is no such deployment, or it was deleted. */
  sharePrefixCache(change: PrefixCacheChange): Promise<boolean>;

  /** Deployments that must run, or still have instances; all, or the given ones. */
  active(ids: readonly DeploymentId[] | undefined): Promise<readonly Active[]>;
  /**
   * Records a waiting caller as use, and requests one instance if none is desired, or wakes one that sleeps. One guarded write
   * for concurrent callers.
   */
  wake(id: DeploymentId, account: AccountId): Promise<void>;
  /** Records use of these deployments in one write. */
  noteUse(ids: readonly DeploymentId[]): Promise<void>;
  /** Undefined when there is no such deployment. */
  coldStart(id: DeploymentId, account: AccountId): Promise<ColdStart | undefined>;

  /** In the order of `ids`, without those that another controller holds. At most `maxGroup`. */
  claim(ids: readonly DeploymentId[], owner: string, ttlMs: number): Promise<readonly Claimed[]>;
  /**
   * Writes verdicts in one transaction, all chosen on one view of the fleet. Returns the written ones; of one whose claim,
   * deployment or host changed, nothing was written. At most `maxGroup`.
   */
  commit(decisions: readonly Decision[]): Promise<ReadonlySet<DeploymentId>>;
  release(claimed: readonly Claimed[]): Promise<void>;

  /**
   * `isFenced`: a newer session exists and nothing was written. `present`: all instances there; unknown ones are returned
   * and stored with the host, and ended ones get their tombstone again.
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

/** `name_taken`: a live deployment or adapter of the account has it; `too_many`: the account has `maxAdapters`. */
export type AdapterRefusal = "name_taken" | "account_gone" | "too_many" | "base_takes_none";

/** State of an adapter for waiting callers. `full`: all slots hold adapters that were used just now. */
export type AdapterStanding = "wanted" | "trouble" | "full" | "failed" | "gone";

export interface AdapterStore {
  /** Loaded at once while the base has fewer than `capacity`. */
  insert(next: NewAdapter, maxAdapters: number, capacity: number): Promise<Adapter | AdapterRefusal>;
  /** Finds the live one by name, otherwise the last failed one. */
  find(name: string, account: AccountId): Promise<Adapter | undefined>;
  get(id: AdapterId, account: AccountId): Promise<Adapter | undefined>;
  /** Newest first, without deleted ones. Optionally of one base, by its name. */
  list(account: AccountId, baseModel: string | undefined): Promise<readonly Adapter[]>;
  change(
    id: AdapterId,
    account: AccountId,
    change: { readonly isPrivate?: boolean; readonly description?: string },
  ): Promise<boolean>;
  /** Returns false when it did not exist. Hosts unload it. */
  remove(id: AdapterId, account: AccountId): Promise<boolean>;
  /** Records use, at intervals. */
  used(id: AdapterId, account: AccountId): Promise<void>;
  /** Requests it for a waiting caller; it replaces the least recently used adapter when the base is full. */
  want(id: AdapterId, account: AccountId, maxHeld: (engine: string, task: string) => number): Promise<AdapterStanding>;
  /** Unloads adapters unused for `idleMs`, moves them with their bases, ends those without a base. Returns the count. */
  maintain(idleMs: number): Promise<number>;
}
