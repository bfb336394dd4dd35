// Tables of hosts, their identities, commands and weights, and of restores.

import type { ColumnType, Generated } from "kysely";
import type { UnknownInstance } from "../../fleet/store.ts";
import type { DefaultTime, Json, OptionalJson, Time } from "../core/columns.ts";

export interface FleetTables {
  host: {
    hostId: string;
    hostname: string;
    advertise: string;
    inventory: Json<unknown>;
    nodeEpoch: bigint;
    /** Of its desired set: sent to the agent, rises with each change. */
    generation: Generated<bigint>;
    /** Moved by claims and inventory, never by heartbeats. */
    revision: Generated<bigint>;
    ticketKey: Buffer;
    schedulable: Generated<boolean>;
    condition: Generated<string>;
    agentVersion: string;
    /** Of the agent's process that registered last, and of those that it took over from, newest first. */
    runId: Generated<string>;
    /** When that process registered first. */
    runBeganAt: DefaultTime;
    supersededRuns: Generated<string[]>;
    /** Not null: its agent has obeyed this epoch, which this database never gave. Nothing is told until it is adopted. */
    behindEpoch: bigint | null;
    behindGeneration: Generated<bigint>;
    /** Not empty: two agents came with its identity. */
    identityAlert: Generated<string>;
    /** What runs there and no row of `instance` names: it holds its GPUs all the same. */
    unknownInstances: ColumnType<readonly UnknownInstance[], string | undefined, string>;
    /** In its last report: leases with a request in flight or an unacknowledged record. */
    openLeaseIds: Generated<string[]>;
    reportedAt: Time | null;
    /** Figures of that report. */
    live: OptionalJson<unknown>;
    /** Weights that lie whole in its cache, as repo@revision. */
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
    /** Brings this host back, also when it was revoked or lost its key; null: any new one. */
    forHost: string | null;
    createdBy: string;
    createdAt: DefaultTime;
    expiresAt: Time;
    usedAt: Time | null;
    usedBy: string | null;
  };
  /** What a host's certificates may say. */
  nodeIdentity: {
    hostId: string;
    /** SHA-256 of the public key that was enrolled last. */
    keyHash: Buffer;
    pool: string;
    /** Of the newest certificate. */
    serial: string;
    notAfter: Time;
    enrolledAt: DefaultTime;
    revokedAt: Time | null;
  };
  /** What hosts are to do once and is not state: sent until an outcome is known, carried out once. */
  hostCommand: {
    commandId: string;
    hostId: string;
    /** Empty: the host itself. */
    instanceId: string;
    /** Of the deployment's specification; 0: whichever. */
    generation: bigint;
    kind: string;
    arguments: Json<unknown>;
    createdAt: DefaultTime;
    deadlineAt: Time;
    /** done, failed, interrupted, rejected_generation, expired, unknown_kind; null: not known yet. */
    outcome: string | null;
    errorCode: string;
    errorMessage: string;
    result: OptionalJson<unknown>;
    finishedAt: Time | null;
  };
  /** Faults of GPUs. While one is not lifted its GPU is given to nobody; the same occurrence never cordons twice. */
  gpuCordon: {
    hostId: string;
    gpuUuid: string;
    /** Names this very occurrence, as the agent does. */
    faultId: string;
    reason: string;
    cordonedAt: DefaultTime;
    liftedAt: Time | null;
  };
  /** Weights an operator wants on a host before anybody asks. */
  nodeWeights: {
    prefetchId: string;
    hostId: string;
    repo: string;
    revision: string;
    /** Empty: chosen by format. */
    file: string;
    /** gguf, safetensors, onnx, lora */
    format: string;
    /** Never evicted. */
    pinned: boolean;
    /** Empty until it is there; this and what follows as the host last said. */
    commit: Generated<string>;
    bytes: Generated<bigint>;
    bytesTotal: Generated<bigint>;
    failCode: Generated<string>;
    failMessage: Generated<string>;
    createdAt: DefaultTime;
  };
  hostOperation: {
    hostId: string;
    /** cordon: nothing new is placed there. drain: what is there goes elsewhere as well. */
    kind: "cordon" | "drain";
    /** Why, as the operator said. */
    note: string;
    /** On it when a drain began. */
    instances: number;
    beganAt: DefaultTime;
    /** Of a drain: what could not be replaced by then goes all the same. */
    deadlineAt: Time | null;
  };
  /** The cluster and timeline that this database was last used on. */
  databaseIdentity: { isOnly: boolean; systemIdentifier: string; timeline: number };
  /** Marks of this database's past; agents remember the last. */
  restoreMark: { seq: bigint; mark: string; madeAt: DefaultTime };
  /** One row for each restore that was noticed; at most one is open. */
  reconcile: {
    reconcileId: string;
    cause: string;
    beganAt: DefaultTime;
    endsBy: Time;
    /** When the backup was taken, if known. */
    backupAt: Time | null;
    endedAt: Time | null;
    report: Json<unknown> | null;
  };
  /** The last evidence of a restore that each host showed, and when: it opened a reconcile, or one was open. */
  reconcileSign: { hostId: string; sign: string; openedAt: DefaultTime };
  /** What each host reported of its resend. */
  reconcileHost: {
    reconcileId: string;
    hostId: string;
    records: bigint;
    dropped: bigint;
    droppedThrough: Time | null;
    isDone: boolean;
  };
}
