// Tables of deployments, instances, adapters and agent instances.

import type { ColumnType, Generated } from "kysely";
import type { Adapter, StandardArgs } from "../../deployments/store.ts";
import type { DefaultTime, Json, Time } from "../core/columns.ts";

export interface DeploymentsTables {
  deployment: {
    deployId: string;
    accountId: string;
    /** What runs: a model, a rented container or an agent instance. */
    kind: Generated<"model" | "container" | "agent_instance">;
    /** Of a container or agent instance: the name its owner gave it. */
    modelName: string;
    version: string;
    task: string;
    type: "legacy" | "llm" | "lora" | "tts";
    engine: "stoker" | "vllm" | "sglang" | "custom" | "external" | "container" | "agent_instance";
    status: string;
    failReason: Generated<string>;
    gpu: string;
    numGpus: number;
    maxBatchSize: number;
    minInstances: number;
    maxInstances: number;
    /** The wire's Weights without the token. */
    weights: Json<Record<string, unknown>>;
    /** Under the account's data key: hub token, or what a container does at its first start; null without one. */
    weightsToken: Buffer | null;
    /** Of kind container: its image and whom it lets in. */
    container: Json<{ image: string; sshKeys: readonly string[] }> | null;
    /** What standard_args come to included. */
    extraArgs: string[];
    /** As the owner gave them, by the names of StandardArgs. */
    standardArgs: ColumnType<StandardArgs, string | undefined, string>;
    /** The image a customer brought; empty: the host's for the engine. */
    image: Generated<string>;
    externalUrl: string | null;
    contextLength: number;
    /** What an instance placed now claims. */
    memoryBytes: bigint;
    /** It never takes more than memory_bytes. */
    memoryBound: Generated<boolean>;
    /** Of deployment_spec: what memory_bytes was found out of. */
    memorySpec: Generated<number>;
    /** Of the price book's container prices; null: a minute costs what its GPUs cost. */
    priceSubject: string | null;
    /** Why it waits: rejections per host. */
    pendingReasons: Json<readonly { host: string; why: string }[]>;
    /** Rises with every change of what runs, a return to what ran before included. */
    generation: Generated<number>;
    /** Of deployment_spec: what is to run. */
    spec: Generated<number>;
    /** The last one that served; 0: none has yet. What a failed update returns to. */
    servingSpec: Generated<number>;
    /** Why the last update was taken back; empty otherwise. */
    updateError: Generated<string>;
    /** Instances wanted by load, between min_instances and max_instances; 0: asleep. */
    target: Generated<number>;
    /** Seconds without a request until it sleeps; null: the default. Only with min_instances 0. */
    inactiveShutdown: number | null;
    /** When somebody last waited for an instance. */
    awaitedAt: Time | null;
    /** Accounts may reuse each other's evaluated prompts. Set by operators only. */
    sharePrefixCache: Generated<boolean>;
    /** When it was last seen in use, a few seconds more or less; null: never. */
    usedAt: Time | null;
    /** Instances that failed while others served, replaced one after the other; back to 0 after a calm time. */
    replacements: Generated<number>;
    replacedAt: Time | null;
    /** How long an instance takes from its placement until it serves, of late; 0 unknown. */
    startMs: Generated<number>;
    revision: Generated<bigint>;
    lockOwner: string | null;
    lockToken: Generated<bigint>;
    lockExpiresAt: Time | null;
    createdAt: DefaultTime;
    updatedAt: DefaultTime;
    deletedAt: Time | null;
  };
  /** What a deployment ran, runs or is to run: never changed, so that old instances keep theirs during a rollout. */
  deploymentSpec: {
    deployId: string;
    spec: number;
    extraArgs: string[];
    standardArgs: ColumnType<StandardArgs, string | undefined, string>;
    contextLength: number;
    /** What its instances claim, which a return to it claims again; null: nobody knew. */
    memoryBytes: bigint | null;
    memoryBound: boolean | null;
    createdAt: DefaultTime;
  };
  instance: {
    instanceId: string;
    deployId: string;
    accountId: string;
    hostId: string;
    generation: number;
    /** Of deployment_spec: what it is to run. */
    spec: Generated<number>;
    /** Of the generation it last reported to run; 0 before its first report. */
    observedGeneration: Generated<number>;
    gpuUuids: string[];
    /** Of each of its GPUs; 1 all of it. */
    gpuShare: Generated<number>;
    /** Of the one GPU it shares; 0: its GPUs are its own. */
    gpuMemoryBytes: Generated<bigint>;
    /** Of its host's memory, promised to it. */
    grantedBytes: Generated<bigint>;
    /** pending, downloading, creating, loading, ready, draining, stopped, failed */
    phase: string;
    failCode: Generated<string>;
    failMessage: Generated<string>;
    bytesDone: Generated<bigint>;
    bytesTotal: Generated<bigint>;
    restarts: Generated<number>;
    contextLength: Generated<number>;
    identity: Generated<string>;
    /** Where SSH of a container is published; 0 and empty where it is not. */
    sshPort: Generated<number>;
    sshAddress: Generated<string>;
    /** When it first served. */
    readyAt: Time | null;
    /** LoRA adapters that requests at it may name, by id. */
    adapters: Generated<string[]>;
    /** Set when it must go; the host removes it and confirms, then the row goes. */
    tombstonedAt: Time | null;
    createdAt: DefaultTime;
    updatedAt: DefaultTime;
  };
  /** Instances that their host confirmed to be gone. One that is seen there again gets its tombstone again. */
  endedInstance: { instanceId: string; hostId: string; endedAt: DefaultTime; seenAgainAt: Time | null };
  /** One row per GPU in use, of one account: the last wall against a double allocation. Goes with the last share. */
  gpuClaim: {
    hostId: string;
    gpuUuid: string;
    accountId: string;
    /** What the GPU has. */
    memoryBytes: bigint;
    /** Sum of the shares; never above memory_bytes. */
    claimedBytes: bigint;
  };
  /** By account and GPU type, moved when small models of the account begin to share one more: two never begin at the same time. */
  gpuSharing: { accountId: string; gpu: string; revision: bigint };
  /** What an instance has of a GPU; all of it where it is alone there. */
  gpuShare: { hostId: string; gpuUuid: string; instanceId: string; accountId: string; memoryBytes: bigint };
  /** LoRA adapters: what the instances of a deployment serve beside their own model. */
  adapter: {
    adapterId: string;
    accountId: string;
    /** `owner/name`, as requests name it. */
    name: string;
    /** Whose instances hold it. */
    baseDeployId: string;
    /** The base's name when the adapter was made. */
    baseModel: string;
    /** The base is a model offered to every account: the adapter follows it to another deployment. */
    isBasePublic: boolean;
    source: Generated<Adapter["source"]>;
    /** Of the hub; of another source its URL as it is shown: what follows the path may be a secret. */
    repo: string;
    revision: string;
    /** The one of the repository that is meant; empty: by the usual names. */
    file: Generated<string>;
    /** The whole of it where the source is no repository, under the account's data key. */
    url: Buffer | null;
    /** Of the hub, or of the URL's host, under the account's data key. */
    token: Buffer | null;
    /** What every instance is to hold: the repository's commit, or the sha256 of the one file. Empty until it is known. */
    commit: Generated<string>;
    isPrivate: Generated<boolean>;
    description: Generated<string>;
    /** deployed: some instance has held it. */
    status: Generated<"initializing" | "downloading" | "deploying" | "deployed" | "failed" | "deleted">;
    failReason: Generated<string>;
    /** The instances of the base are to hold it: it was used of late, and there is room. */
    isWanted: Generated<boolean>;
    usedAt: DefaultTime;
    /** When another one lost its place because an instance had no room for this one. */
    roomMadeAt: Date | null;
    createdAt: DefaultTime;
    updatedAt: DefaultTime;
  };
  /** What a deployment of kind agent_instance is beside a deployment. */
  agentInstance: {
    deployId: string;
    accountId: string;
    agentType: string;
    planId: string;
    version: string;
    image: string;
    port: number;
    volumePath: string;
    /** Where its dashboard listens; null: it has none. */
    dashboardPort: number | null;
    vcpu: number;
    ramBytes: bigint;
    /** Nano-USD per hour when it was created; what is charged stands in the price book. */
    hourRate: bigint;
    /** Created, or started the last time. */
    startedAt: DefaultTime;
    wasStopped: Generated<boolean>;
    /** backup, restore or try_restore while it runs; then its backup, its command and since when. */
    operation: string | null;
    operationBackup: string | null;
    operationCommand: string | null;
    operationAt: Time | null;
    lastBackupAt: Time | null;
    /** Why the last operation failed; empty: it did not. */
    lastFault: Generated<string>;
    /** Of a deleted one: the command that removes its volume, and when the host had done so. */
    removalCommand: string | null;
    volumeRemovedAt: Time | null;
  };
  /** A dashboard that is to be opened, or is open in one browser. */
  dashboardVisit: {
    /** SHA-256 of the launch token, then of the cookie that it was given for. */
    visitHash: Buffer;
    deployId: string;
    accountId: string;
    /** The key it was asked for with, or the sign-in: it ends with that. */
    keyId: string | null;
    login: Buffer | null;
    /** The launch token was given for a cookie: it is of no use any more. */
    isOpen: Generated<boolean>;
    createdAt: DefaultTime;
    expiresAt: Time;
  };
  instanceBackup: {
    backupId: string;
    deployId: string;
    accountId: string;
    isScheduled: boolean;
    /** creating, ready, failed, deleting */
    state: string;
    /** In the blob store of the hosts. */
    blobKey: string;
    /** The command that makes it. */
    madeByCommand: string | null;
    sha256: Generated<string>;
    sizeBytes: Generated<bigint>;
    fault: Generated<string>;
    createdAt: DefaultTime;
    finishedAt: Time | null;
    /** The command that removes it from the store. */
    removalCommand: string | null;
  };
  /** Most GPU memory that an instance was seen to hold, over all its GPUs. */
  measuredMemory: {
    /** Of the weights. */
    version: string;
    engine: string;
    gpu: string;
    /** Everything else that changes what it takes, in one text. */
    settings: string;
    peakBytes: bigint;
    /** What its deployment had expected; 0 nothing. */
    expectedBytes: bigint;
    /** How often it was looked at while it served. */
    looks: Generated<number>;
    measuredAt: DefaultTime;
  };
  /** By GPU type, moved by every claim that a minimum of another account bears on: two of them never look at the same time. */
  gpuReserve: {
    gpu: string;
    revision: bigint;
  };
}
