// Tables of hosts, their identities, commands and weights, and of restores.

import type { ColumnType, Generated } from "kysely";
import type { AccountId, DeploymentId, HostId, InstanceId } from "../../../proto/ids.ts";
import type { HostLive, Inventory, ReconcileReport, UnknownInstance } from "../../fleet/store.ts";
import type { IncidentKind } from "../../oversight/store.ts";
import type { DefaultTime, Json, OptionalJson, Time } from "../core/columns.ts";

export interface FleetTables {
  host: {
    hostId: HostId;
    hostname: string;
    advertise: string;
    inventory: Json<Inventory>;
    nodeEpoch: bigint;
    /** Generation of its desired set: sent to the agent, incremented by each change. */
    generation: Generated<bigint>;
    /** Moved by claims and inventory, never by heartbeats. */
    revision: Generated<bigint>;
    ticketKey: Buffer;
    schedulable: Generated<boolean>;
    condition: Generated<string>;
    agentVersion: string;
    /** Run of the agent's process that registered last; below, the runs it superseded, newest first. */
    runId: Generated<string>;
    /** First registration of that process. */
    runBeganAt: DefaultTime;
    supersededRuns: Generated<string[]>;
    /** Not null: its agent has applied this epoch, which this database never issued. Nothing is sent until it is adopted. */
    behindEpoch: bigint | null;
    behindGeneration: Generated<bigint>;
    /** Not empty: two agents registered with its identity. */
    identityAlert: Generated<string>;
    /** Running instances without a row in `instance`: their GPUs count as in use. */
    unknownInstances: ColumnType<readonly UnknownInstance[], string | undefined, string>;
    /** Leases in its last report that have a running request or an unacknowledged record. */
    openLeaseIds: Generated<string[]>;
    reportedAt: Time | null;
    /** Figures of that report. */
    live: OptionalJson<HostLive>;
    /** Complete weights in its cache, as repo@revision. */
    keptWeights: Generated<string[]>;
    seenAt: DefaultTime;
    createdAt: DefaultTime;
  };
  /** The authority that signs hosts' certificates: one row. */
  nodeAuthority: {
    name: string;
    /** X.509, DER. */
    certificate: Buffer;
    /** PKCS#8 under the key-encryption key. */
    sealedKey: Buffer;
    createdAt: DefaultTime;
  };
  nodeJoinToken: {
    tokenId: string;
    /** SHA-256. */
    secretHash: Buffer;
    pool: string;
    /** Admits this host again, also when it was revoked or lost its key; null: any new host. */
    forHost: string | null;
    createdBy: string;
    createdAt: DefaultTime;
    expiresAt: Time;
    usedAt: Time | null;
    usedBy: string | null;
  };
  /** Identity that a host's certificates must have. */
  nodeIdentity: {
    hostId: HostId;
    /** SHA-256 of the last enrolled public key. */
    keyHash: Buffer;
    pool: string;
    /** Serial of the newest certificate. */
    serial: string;
    notAfter: Time;
    enrolledAt: DefaultTime;
    revokedAt: Time | null;
  };
  /** Commands that a host runs once: sent until an outcome is known. */
  hostCommand: {
    commandId: string;
    hostId: HostId;
    /** Empty: the host itself. */
    instanceId: string;
    /** Generation of the deployment's specification; 0: any. */
    generation: bigint;
    kind: string;
    arguments: Json<unknown>;
    createdAt: DefaultTime;
    deadlineAt: Time;
    /** done, failed, interrupted, rejected_generation, expired, unknown_kind; null: unknown. */
    outcome: string | null;
    errorCode: string;
    errorMessage: string;
    result: OptionalJson<unknown>;
    finishedAt: Time | null;
  };
  /** Faults of GPUs. A GPU with a fault that is not lifted gets no instance; one occurrence cordons once. */
  gpuCordon: {
    hostId: HostId;
    gpuUuid: string;
    /** The agent's id of this occurrence. */
    faultId: string;
    reason: string;
    cordonedAt: DefaultTime;
    liftedAt: Time | null;
  };
  /** Weights that an operator prefetches to a host. */
  nodeWeights: {
    prefetchId: string;
    hostId: HostId;
    repo: string;
    revision: string;
    /** Empty: chosen by format. */
    file: string;
    /** gguf, safetensors, onnx, lora */
    format: string;
    /** Never evicted. */
    pinned: boolean;
    /** Empty until downloaded. From here on as last reported by the host. */
    commit: Generated<string>;
    bytes: Generated<bigint>;
    bytesTotal: Generated<bigint>;
    failCode: Generated<string>;
    failMessage: Generated<string>;
    createdAt: DefaultTime;
  };
  /** Changes of deployments and hosts. Written by triggers of their tables only. */
  event: {
    eventId: Generated<bigint>;
    at: DefaultTime;
    /** `noun.verb`: deployment.deployed, instance.ready, host.draining, gpu.cordoned, ... */
    kind: string;
    /** Null: a host's own. */
    accountId: AccountId | null;
    deployId: DeploymentId | null;
    instanceId: InstanceId | null;
    hostId: HostId | null;
    gpuUuid: string | null;
    /** New status, phase, number of instances or of restarts, or version; empty: the kind says all. */
    state: Generated<string>;
    reason: Generated<string>;
  };
  /** Written by a repeated job; at most one of a kind and subject is open. */
  incident: {
    incidentId: Generated<bigint>;
    kind: IncidentKind;
    subject: string;
    /** 1 info, 2 warning, 3 critical. */
    severity: number;
    summary: string;
    advice: Generated<string>;
    accountId: AccountId | null;
    deployId: DeploymentId | null;
    hostId: HostId | null;
    gpuUuid: string | null;
    beganAt: DefaultTime;
    /** Last change of its texts. */
    seenAt: DefaultTime;
    endedAt: Time | null;
  };
  /** Sums of requests in `step` minutes from `at` on. */
  requestSeries: {
    /** Empty: of all accounts. */
    accountId: string;
    /** Empty: of all models. */
    model: string;
    step: number;
    at: Time;
    /** Control plane that counted them; `ledger`: only the amounts charged; empty: a longer period, of all. */
    replicaId: string;
    requests: Generated<bigint>;
    clientErrors: Generated<bigint>;
    serverErrors: Generated<bigint>;
    aborted: Generated<bigint>;
    inputTokens: Generated<bigint>;
    outputTokens: Generated<bigint>;
    /** Nano-USD. */
    spend: Generated<bigint>;
    /** Histograms: control-plane/series/histogram.ts. */
    firstMs: Generated<number[]>;
    totalMs: Generated<number[]>;
  };
  /** Figures of a host in `step` minutes from `at` on: means; of temperature and waiting requests the maximum. */
  hostSeries: {
    /** Empty: all hosts. */
    hostId: HostId | "";
    step: number;
    at: Time;
    gpus: number;
    gpusHeld: number;
    gpuUse: number | null;
    gpuMemoryUsed: number | null;
    gpuMemoryTotal: number | null;
    gpuPowerWatts: number | null;
    gpuTemperature: number | null;
    cpuUse: number | null;
    memoryUsed: number | null;
    running: number;
    waiting: number;
    /** Uuid, use, memory used, power and temperature of each GPU. */
    gpuSamples: Json<readonly unknown[]>;
  };
  hostOperation: {
    hostId: HostId;
    /** cordon: nothing new is placed there. drain: its instances also move elsewhere. */
    kind: "cordon" | "drain";
    /** The operator's reason. */
    note: string;
    /** Number of instances when the drain began. */
    instances: number;
    beganAt: DefaultTime;
    /** Deadline of a drain: instances that could not be replaced by then are stopped. */
    deadlineAt: Time | null;
  };
  /** The cluster and timeline that this database was last used on. */
  databaseIdentity: { isOnly: boolean; systemIdentifier: string; timeline: number };
  /** Marks of this database's history; agents store the last one. */
  restoreMark: { seq: bigint; mark: string; madeAt: DefaultTime };
  /** One row for each detected restore; at most one is open. */
  reconcile: {
    reconcileId: string;
    cause: string;
    beganAt: DefaultTime;
    endsBy: Time;
    /** When the backup was taken, if known. */
    backupAt: Time | null;
    endedAt: Time | null;
    report: Json<ReconcileReport> | null;
  };
  /** Last sign of a restore from each host: it opened a reconcile, or one was open. */
  reconcileSign: { hostId: HostId; sign: string; openedAt: DefaultTime };
  /** Each host's report of its resend. */
  reconcileHost: {
    reconcileId: string;
    hostId: HostId;
    records: bigint;
    dropped: bigint;
    droppedThrough: Time | null;
    isDone: boolean;
  };
}
