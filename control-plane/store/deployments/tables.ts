// Tables of deployments, instances, adapters and agent instances.

import type { ColumnType, Generated } from "kysely";
import type { FormatSkill } from "../../../proto/api-formats.ts";
import type { GpuType } from "../../../proto/gpu.ts";
import type { AccountId, AdapterId, DeploymentId, HostId, InstanceId, KeyId, MemberId } from "../../../proto/ids.ts";
import type { InstancePhase } from "../../../proto/instance-phase.ts";
import type { BackupState, Operation } from "../../agent-instances/store.ts";
import type {
  Adapter,
  Deployment,
  DeploymentKind,
  DeploymentStatus,
  Scaling,
  StandardArgs,
  WeightsSource,
} from "../../deployments/store.ts";
import type { DefaultTime, Json, Time } from "../core/columns.ts";

export interface DeploymentsTables {
  deployment: {
    deployId: DeploymentId;
    accountId: AccountId;
    kind: Generated<DeploymentKind>;
    /** For a container or agent instance: the name given by its owner. */
    modelName: string;
    version: string;
    task: string;
    type: Deployment["type"];
    engine: Deployment["engine"];
    status: DeploymentStatus;
    failReason: Generated<string>;
    gpu: GpuType;
    numGpus: number;
    maxBatchSize: number;
    /** Not set by the operator: what its external server reports replaces max_batch_size. */
    takesServerBatch: Generated<boolean>;
    minInstances: number;
    maxInstances: number;
    weights: Json<WeightsSource>;
    /** Sealed with the account's data key: hub token, or a container's first-start script; null: none. */
    weightsToken: Buffer | null;
    /** Set for kind container. */
    container: Json<NonNullable<Deployment["container"]>> | null;
    /** Including the standard arguments. */
    extraArgs: string[];
    /** As set by the owner. */
    standardArgs: ColumnType<StandardArgs, string | undefined, string>;
    /** The customer's own image; empty: the host's image for the engine. */
    image: Generated<string>;
    externalUrl: string | null;
    contextLength: number;
    /** GPU memory that a new instance claims. */
    memoryBytes: bigint;
    /** Its memory never exceeds memory_bytes. */
    memoryBound: Generated<boolean>;
    /** Number in deployment_spec that memory_bytes was determined from. */
    memorySpec: Generated<number>;
    /** Subject of its container price; null: priced by its GPUs. */
    priceSubject: string | null;
    /** Rejections per host while it waits. */
    pendingReasons: Json<Deployment["pendingReasons"]>;
    /** Incremented by every change of what runs, also by a return to an earlier specification. */
    generation: Generated<number>;
    /** Number of the desired specification in deployment_spec. */
    spec: Generated<number>;
    /** Number of the last one that served; 0: none. A failed update returns to it. */
    servingSpec: Generated<number>;
    /** Why the last update was reverted; empty otherwise. */
    updateError: Generated<string>;
    /** Desired instances by load, between min_instances and max_instances; 0: asleep. */
    target: Generated<number>;
    /** Seconds without a request until it sleeps; null: the default. Only with min_instances 0. */
    inactiveShutdown: number | null;
    /** Seconds without a request until an instance sleeps; 0: never. */
    sleepAfter: Generated<number>;
    /** Targets of what users wait, and schedules. */
    scaling: ColumnType<Scaling, string | undefined, string>;
    /** When a caller last waited for an instance. */
    awaitedAt: Time | null;
    /** Accounts may reuse each other's evaluated prompts. Set by operators only. */
    sharePrefixCache: Generated<boolean>;
    /** Last observed use, to within seconds; null: never. */
    usedAt: Time | null;
    /** Failed instances replaced beside serving ones since the last stable period. */
    replacements: Generated<number>;
    replacedAt: Time | null;
    /** Duration of a recent start, from placement until it served; 0: unknown. */
    startMs: Generated<number>;
    revision: Generated<bigint>;
    lockOwner: string | null;
    lockToken: Generated<bigint>;
    lockExpiresAt: Time | null;
    createdAt: DefaultTime;
    updatedAt: DefaultTime;
    deletedAt: Time | null;
  };
  /** Specifications of a deployment. Immutable, so that old instances keep theirs during a rollout. */
  deploymentSpec: {
    deployId: DeploymentId;
    spec: number;
    extraArgs: string[];
    standardArgs: ColumnType<StandardArgs, string | undefined, string>;
    contextLength: number;
    /** GPU memory that its instances claim, also after a return to it; null: unknown. */
    memoryBytes: bigint | null;
    memoryBound: boolean | null;
    createdAt: DefaultTime;
  };
  instance: {
    instanceId: InstanceId;
    deployId: DeploymentId;
    accountId: AccountId;
    hostId: HostId;
    generation: number;
    /** Number of its desired specification in deployment_spec. */
    spec: Generated<number>;
    /** Generation of its last report; 0 before the first. */
    observedGeneration: Generated<number>;
    gpuUuids: string[];
    /** Share of each of its GPUs; 1: all. */
    gpuShare: Generated<number>;
    /** Its memory on a shared GPU; 0: exclusive GPUs. */
    gpuMemoryBytes: Generated<bigint>;
    /** Granted host memory. */
    grantedBytes: Generated<bigint>;
    phase: InstancePhase;
    failCode: Generated<string>;
    failMessage: Generated<string>;
    bytesDone: Generated<bigint>;
    bytesTotal: Generated<bigint>;
    restarts: Generated<number>;
    contextLength: Generated<number>;
    identity: Generated<string>;
    /** Published SSH address of a container; 0 and empty: none. */
    sshPort: Generated<number>;
    sshAddress: Generated<string>;
    /** First time it served. */
    readyAt: Time | null;
    /** When it was last chosen to wake for a waiting caller. */
    awaitedAt: Time | null;
    /** LoRA adapters that it holds. */
    adapters: Generated<AdapterId[]>;
    /** Formats besides chat that its engine speaks (proto/api-formats.ts). */
    formats: Generated<FormatSkill[]>;
    /** Requests that its external server takes at once, as it reports; null: unknown. */
    serverBatchSize: number | null;
    /** Set when it must be removed; the row is deleted once the host confirms the removal. */
    tombstonedAt: Time | null;
    createdAt: DefaultTime;
    updatedAt: DefaultTime;
  };
  /** Instances whose removal their host confirmed. One that is observed again gets its tombstone again. */
  endedInstance: { instanceId: InstanceId; hostId: HostId; endedAt: DefaultTime; seenAgainAt: Time | null };
  /** One row per GPU in use, owned by one account: prevents a double allocation. Deleted with its last share. */
  gpuClaim: {
    hostId: HostId;
    gpuUuid: string;
    accountId: AccountId;
    /** Memory of the GPU. */
    memoryBytes: bigint;
    /** Sum of the shares; at most memory_bytes. */
    claimedBytes: bigint;
  };
  /** By account and GPU type, moved when small models of the account begin to share one more: two never begin at the same time. */
  gpuSharing: { accountId: AccountId; gpu: string; revision: bigint };
  /** Memory that an instance has of a GPU; all of it on an exclusive GPU. */
  gpuShare: { hostId: HostId; gpuUuid: string; instanceId: InstanceId; accountId: AccountId; memoryBytes: bigint };
  /** LoRA adapters that the instances of a deployment serve beside their model. */
  adapter: {
    adapterId: AdapterId;
    accountId: AccountId;
    /** `owner/name`, as in requests. */
    name: string;
    /** Deployment whose instances hold it. */
    baseDeployId: DeploymentId;
    /** Name of the base at creation. */
    baseModel: string;
    /** The base is offered to every account: the adapter moves with it to another deployment. */
    isBasePublic: boolean;
    source: Generated<Adapter["source"]>;
    /** Repository on the hub, or the URL of another source without its query, which may be a secret. */
    repo: string;
    revision: string;
    /** File of the repository; empty: found by the usual names. */
    file: Generated<string>;
    /** Complete URL of a source that is no repository, sealed with the account's data key. */
    url: Buffer | null;
    /** Token of the hub or of the URL's host, sealed with the account's data key. */
    token: Buffer | null;
    /** Commit of the repository, or sha256 of the file, that every instance must hold. Empty until known. */
    commit: Generated<string>;
    isPrivate: Generated<boolean>;
    description: Generated<string>;
    /** deployed: an instance has held it. */
    status: Generated<Adapter["status"]>;
    failReason: Generated<string>;
    /** The instances of the base must hold it: it was used recently, and there is capacity. */
    isWanted: Generated<boolean>;
    usedAt: DefaultTime;
    /** When another one was evicted because an instance had no memory for this one. */
    roomMadeAt: Time | null;
    createdAt: DefaultTime;
    updatedAt: DefaultTime;
  };
  /** Properties of deployments of kind agent_instance. */
  agentInstance: {
    deployId: DeploymentId;
    accountId: AccountId;
    agentType: string;
    planId: string;
    version: string;
    image: string;
    port: number;
    volumePath: string;
    /** Port of its dashboard; null: it has none. */
    dashboardPort: number | null;
    vcpu: number;
    ramBytes: bigint;
    /** Nano-USD per hour at its creation; charges use the price book. */
    hourRate: bigint;
    /** Created, or last started. */
    startedAt: DefaultTime;
    wasStopped: Generated<boolean>;
    /** Operation that runs on its volume, with its backup, command and start. */
    operation: Operation | null;
    operationBackup: string | null;
    operationCommand: string | null;
    operationAt: Time | null;
    lastBackupAt: Time | null;
    /** Error of the last operation; empty: it succeeded. */
    lastFault: Generated<string>;
    /** After deletion: command that removes its volume, and when the host confirmed it. */
    removalCommand: string | null;
    volumeRemovedAt: Time | null;
  };
  /** A launch token of a dashboard, or a browser that has it open. */
  dashboardVisit: {
    /** SHA-256 of the launch token, then of the cookie it was exchanged for. */
    visitHash: Buffer;
    deployId: DeploymentId;
    accountId: AccountId;
    /** Key or session that created it, and the member in an organisation: the visit ends with them. */
    keyId: KeyId | null;
    login: Buffer | null;
    memberId: Generated<MemberId | null>;
    /** The launch token was exchanged for a cookie. */
    isOpen: Generated<boolean>;
    createdAt: DefaultTime;
    expiresAt: Time;
  };
  /** A ticket for a terminal, or a terminal that is open. */
  terminal: {
    /** SHA-256 of the ticket. */
    ticketHash: Buffer;
    deployId: DeploymentId;
    accountId: AccountId;
    /** Key or session that requested it, and the member in an organisation: the terminal ends with them. */
    keyId: KeyId | null;
    login: Buffer | null;
    memberId: Generated<MemberId | null>;
    /** The client's address. */
    ip: string;
    /** When the ticket was used. */
    openedAt: Time | null;
    createdAt: DefaultTime;
    /** An open terminal is renewed while it is open. */
    expiresAt: Time;
  };
  instanceBackup: {
    backupId: string;
    deployId: DeploymentId;
    accountId: AccountId;
    isScheduled: boolean;
    state: BackupState;
    /** Key in the blob store of the hosts. */
    blobKey: string;
    /** Command that creates it. */
    madeByCommand: string | null;
    sha256: Generated<string>;
    sizeBytes: Generated<bigint>;
    fault: Generated<string>;
    createdAt: DefaultTime;
    finishedAt: Time | null;
    /** Command that removes it from the blob store. */
    removalCommand: string | null;
  };
  /** Peak GPU memory of an instance, over all its GPUs. */
  measuredMemory: {
    /** Version of the weights. */
    version: string;
    engine: string;
    gpu: string;
    /** All other settings that affect its memory, as one text. */
    settings: string;
    peakBytes: bigint;
    /** Expectation of its deployment; 0: none. */
    expectedBytes: bigint;
    /** Number of measurements while it served. */
    looks: Generated<number>;
    measuredAt: DefaultTime;
  };
  /** Incremented by every claim of the type while another account has a minimum, so that two claims do not race. */
  gpuReserve: {
    gpu: string;
    revision: bigint;
  };
}
