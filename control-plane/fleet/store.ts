// Storage of the fleet. Implemented by store/fleet-store.ts.

import type { FormatSkill } from "../../proto/api-formats.ts";
import type { AccountId, AdapterId, DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import type { Act } from "../act.ts";
import type { Gpu, GpuClaim, HostOperation, HostRecord, Inventory, UnknownInstance } from "./host.ts";
import type { AgedLive, HostLive } from "./live.ts";
import type { PlacedOn } from "./rebalance.ts";

export type { AgedLive, Gpu, GpuClaim, HostLive, HostOperation, HostRecord, Inventory, UnknownInstance };

export interface Registration {
  readonly hostId: HostId;
  readonly hostname: string;
  readonly advertise: string;
  readonly agentVersion: string;
  readonly inventory: Inventory;
  /** 32 random bytes; signs the tickets of the new epoch. */
  readonly ticketKey: Buffer;
  /** Id of the agent's process. */
  readonly runId: string;
  /** Highest epoch the agent has applied. */
  readonly highestEpoch: bigint;
  readonly generation: bigint;
}

export type Registered =
  | {
      readonly kind: "registered";
      readonly nodeEpoch: bigint;
      /** The agent has applied an epoch that this database never issued, and the host was not adopted since. */
      readonly isBehind: boolean;
      /** A superseded run returned: two agents share one identity. */
      readonly isClone: boolean;
    }
  /** The superseding run is alive: this one is fenced. */
  | { readonly kind: "superseded" };

export interface RouteRow {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  readonly hostId: HostId;
  readonly origin: string;
  readonly ticketKey: Buffer;
  readonly maxBatchSize: number;
  /** LoRA adapters it holds. */
  readonly adapters: ReadonlySet<AdapterId>;
  /** Formats besides chat that its engine speaks. */
  readonly formats: ReadonlySet<FormatSkill>;
  readonly nodeEpoch: bigint;
}

export interface NeighbourRow {
  readonly hostId: HostId;
  readonly origin: string;
  readonly ticketKey: Buffer;
}

/** A host's epoch, as the writer knows it: a write of an older session has no effect. */
export interface HostSession {
  readonly hostId: HostId;
  readonly nodeEpoch: bigint;
}

/** A sign of life since the last write; with a report's leases where one came. */
export interface HeartBeat extends HostSession {
  readonly leases?: { readonly ids: readonly string[]; readonly ageMs: number; readonly live: HostLive };
}

/** An operator's confirmation that GPUs work. */
export interface GpuUncordon {
  readonly host: HostId;
  /** Undefined: all GPUs of the host. */
  readonly gpu: string | undefined;
  readonly act: Act;
}

/** An instance with its deployment and customer. */
export interface Occupant extends PlacedOn {
  readonly kind: "model" | "container" | "agent_instance";
  /** Address of the customer. */
  readonly email: string;
}

export interface HostOperationStore {
  /**
   * Cordons the host, or drains it when a deadline is given; the newest operation wins, audited. `draining`: a cordon would
   * end the running drain; nothing was written.
   */
  begin(
    request: { readonly host: HostId; readonly deadlineMs: number | undefined },
    act: Act,
  ): Promise<"begun" | "draining" | "unknown">;
  /** False when there is nothing to end. */
  end(host: HostId, act: Act): Promise<boolean>;
  /** Hosts being drained, with the ms left until their deadline; 0 or less: overdue. */
  draining(): Promise<ReadonlyMap<HostId, number>>;
  /** Instances still there, and how many of them are bound to its disk. */
  left(host: HostId): Promise<{ readonly all: number; readonly fixed: number }>;
  /** All instances without a tombstone. */
  placed(): Promise<readonly Occupant[]>;
  remove(host: HostId, act: Act): Promise<"removed" | "has_instances" | "unknown">;
  /** Orders the host to end unknown instances, audited; returns them. `only`: limits it to these instances. */
  endUnknown(host: HostId, only: readonly string[] | undefined, act: Act): Promise<readonly InstanceId[]>;
}

export interface FleetStore {
  /**
   * Issues the host's next epoch and notifies every replica: older sessions are fenced from here on. A host that has applied
   * a newer state than this database holds keeps its epoch and is marked until adopted. `leaseMs`: a run heard within it is
   * alive.
   */
  register(registration: Registration, leaseMs: number): Promise<Registered>;
  /**
   * Raises the host's epoch and generation above what its agent applied, audited; adopts instances of known deployments.
   * Undefined: the host is unknown, or not behind.
   */
  adopt(host: HostId, act: Act, grantOf: GrantOf): Promise<AdoptedHost | undefined>;
  /** Writes all heartbeats in one statement. */
  heard(beats: readonly HeartBeat[]): Promise<void>;
  /** Hosts with a revoked certificate: they serve nothing. */
  revoked(): Promise<ReadonlySet<HostId>>;
  /** Revoked hosts whose certificates have not expired, so that other hosts would still accept them. */
  barred(): Promise<readonly HostId[]>;
  /** Run that registered last; undefined: the host is unknown. */
  runOf(host: HostId): Promise<string | undefined>;
  /** Unix ms per host. */
  seenAt(): Promise<ReadonlyMap<HostId, number>>;
  setCondition(session: HostSession, to: { readonly schedulable: boolean; readonly condition: string }): Promise<void>;
  /** Raises the host's revision. GPUs with a fault are cordoned. */
  setInventory(session: HostSession, inventory: Inventory): Promise<void>;
  /** Lease ids in the last report of every host, and its age; for a host without reports, since its registration. */
  openLeases(): Promise<
    readonly { readonly hostId: HostId; readonly leaseIds: readonly string[]; readonly reportAgeMs: number }[]
  >;
  /** All hosts, or the given ones, with their claims; a cordoned GPU counts as unhealthy. */
  hosts(only?: readonly HostId[]): Promise<readonly HostRecord[]>;
  /** A write of an older session has no effect. */
  setKeptWeights(session: HostSession, keys: readonly string[]): Promise<void>;
  /** Figures of the last report, as stored by any replica. */
  live(only?: readonly HostId[]): Promise<ReadonlyMap<HostId, AgedLive>>;
  /** Uuids by host. */
  cordonedGpus(): Promise<ReadonlyMap<HostId, ReadonlySet<string>>>;
  /** Returns false when nothing is cordoned there. */
  uncordon(request: GpuUncordon): Promise<boolean>;
  /** Key that signs requests to this host; undefined: unknown. */
  dataPath(host: HostId): Promise<{ readonly origin: string; readonly ticketKey: Buffer } | undefined>;
  /**
   * Other hosts with a verified data path, first those that run a model of the repository or prefetch it. `repo` is
   * owner/name of a hub, or `pypi:` and a package.
   */
  neighbours(host: HostId, repo: string, limit: number): Promise<readonly NeighbourRow[]>;
  /** Ready instances without a tombstone. */
  readyInstances(): Promise<readonly RouteRow[]>;
}

/** Returns what an instance claims that a host runs without a row. */
export type GrantOf = (one: Adoptable, inventory: Inventory) => AdoptedClaim;

export interface Adoptable {
  readonly gpuUuids: readonly string[];
  readonly engine: string;
  /** GPU memory that its deployment claims; 0: unknown. */
  readonly memoryBytes: number;
  /** Its deployment puts instances to sleep. */
  readonly sleeps: boolean;
  /** Other instances use its GPU in turn. */
  readonly isJoining: boolean;
}

export interface AdoptedClaim {
  /** Granted host memory. */
  readonly grantBytes: number;
  /** Claimed of each of its GPUs. */
  readonly gpus: readonly { readonly uuid: string; readonly memoryBytes: number; readonly claimBytes: number }[];
  /** Holder of the claims; undefined: its account. */
  readonly claimant: AccountId | undefined;
}

export interface AdoptedHost {
  /** Adopted instances. */
  readonly instances: readonly InstanceId[];
  /** Their deployments. */
  readonly deployIds: readonly DeploymentId[];
  /** Instances that stay unknown, and why. */
  readonly left: readonly { readonly instanceId: InstanceId; readonly deployId: DeploymentId; readonly why: string }[];
}

/** Seals ticket keys with the operator's key. The host's id is bound to the ciphertext. */
export interface TicketKeySeal {
  seal(key: Buffer, host: HostId): Buffer;
  open(sealed: Buffer, host: HostId): Buffer;
}

export interface NewJoinToken {
  readonly id: string;
  readonly secretHash: Buffer;
  readonly pool: string;
  /** Undefined: any new host. */
  readonly forHost: HostId | undefined;
  readonly expiresAt: Date;
}

/** A host's request for its first certificate, or for one after it lost its own. */
export interface EnrolmentClaim {
  readonly hostId: HostId;
  readonly keyHash: Buffer;
  readonly serial: string;
  readonly notAfter: Date;
  readonly ip: string;
  /** Undefined: the reusable token of the installation. */
  readonly token: { readonly id: string; readonly secretHash: Buffer } | undefined;
}

export type EnrolmentVerdict =
  | "enrolled"
  | "unknown_token"
  | "used_token"
  | "expired_token"
  | "other_host"
  | "host_taken"
  | "revoked";

export interface KnownIdentity {
  readonly keyHash: Buffer;
  readonly isRevoked: boolean;
}

/** A join token without its secret. */
export interface IssuedToken {
  readonly id: string;
  readonly pool: string;
  /** Host that it admits; null: any new one. */
  readonly forHost: HostId | null;
  /** Account that created it. */
  readonly createdBy: string;
  readonly createdAtMs: number;
  readonly expiresAtMs: number;
  /** Null: not used. */
  readonly usedAtMs: number | null;
  readonly usedBy: HostId | null;
}

/** A host that enrolled, and its certificate. */
export interface EnrolledHost {
  readonly id: HostId;
  /** Null: it has not connected since it enrolled. */
  readonly hostname: string | null;
  readonly pool: string;
  readonly enrolledAtMs: number;
  readonly certificateExpiresAtMs: number;
  readonly revokedAtMs: number | null;
}

export interface EnrolmentStore {
  /** Stores `made` unless an authority exists; returns the stored one. */
  authority(
    make: () => Promise<{ readonly certificate: Buffer; readonly sealedKey: Buffer }>,
  ): Promise<{ readonly certificate: Buffer; readonly sealedKey: Buffer }>;
  addToken(token: NewJoinToken, act: Act): Promise<void>;
  /** Uses the token and stores the host's identity in one transaction; audited. The same host and key may repeat it. */
  enroll(claim: EnrolmentClaim): Promise<EnrolmentVerdict>;
  /** Undefined: no host with that id enrolled here. */
  identity(host: HostId): Promise<KnownIdentity | undefined>;
  /**
   * Stores a newer certificate of the same key, also for a host missing after a restore. Returns false: revoked, or another
   * key.
   */
  renewed(host: HostId, certificate: Omit<EnrolmentClaim, "hostId" | "token" | "ip">): Promise<boolean>;
  /** Ends the host's sessions and routes permanently; audited. Returns false: unknown, or already revoked. */
  revoke(host: HostId, act: Act): Promise<boolean>;
  /** At most 100, the newest first: those that are valid or expired within a week. */
  tokens(): Promise<readonly IssuedToken[]>;
  enrolled(): Promise<readonly EnrolledHost[]>;
}

export interface PendingCommand {
  readonly id: string;
  readonly instanceId: string;
  readonly generation: bigint;
  readonly kind: string;
  readonly arguments: unknown;
  readonly deadlineMs: number;
}

export interface CommandOutcome {
  readonly id: string;
  readonly outcome: string;
  readonly errorCode: string;
  readonly errorMessage: string;
  readonly result: unknown;
}

/** Commands for hosts. Rows are inserted in the transaction of the operation that needs them. */
export interface CommandStore {
  /** Commands without an outcome, oldest first; also past their deadline: the agent may have started in time. */
  pending(host: HostId): Promise<readonly PendingCommand[]>;
  /** Stores the first outcome; waiters receive it as `command`. */
  finish(host: HostId, outcome: CommandOutcome): Promise<void>;
}

/** A repository that an operator prefetches to a host. */
export interface AskedWeights {
  readonly repo: string;
  readonly revision: string;
  /** Empty: chosen by format. */
  readonly file: string;
  readonly format: string;
  /** Never evicted. */
  readonly isPinned: boolean;
}

export interface NodeWeights extends AskedWeights {
  readonly id: string;
  /** Empty until downloaded. */
  readonly commit: string;
  readonly bytes: bigint;
  /** 0 while unknown. */
  readonly bytesTotal: bigint;
  /** Empty when there is no error. */
  readonly failCode: string;
  readonly failMessage: string;
  readonly createdAtMs: number;
}

/** Progress of one of them, as reported by its host. */
export type NodeWeightsNews = Pick<NodeWeights, "id" | "commit" | "bytes" | "bytesTotal" | "failCode" | "failMessage">;

export interface NodeWeightsStore {
  /** Wakes the host. Undefined when the host does not exist. */
  ask(
    host: HostId,
    id: string,
    request: AskedWeights,
    who: { readonly by: string; readonly ip: string },
  ): Promise<NodeWeights | undefined>;
  /** Oldest first; undefined when the host does not exist. */
  list(host: HostId): Promise<readonly NodeWeights[] | undefined>;
  /** Returns false when there is none. */
  drop(host: HostId, id: string, who: { readonly by: string; readonly ip: string }): Promise<boolean>;
  /** A report of an older session has no effect. */
  observe(session: HostSession, news: readonly NodeWeightsNews[]): Promise<void>;
}

export interface OpenReconcile {
  readonly id: string;
  readonly cause: string;
  readonly beganAtMs: number;
}

export interface ResendOfHost {
  readonly reconcileId: string;
  readonly records: bigint;
  /** Records dropped by the host because of its limits on age and bytes. */
  readonly dropped: bigint;
  /** Unix ms; 0: none was dropped. */
  readonly droppedThroughMs: number;
  readonly isDone: boolean;
}

export interface ReconcileReport {
  readonly cause: string;
  readonly hosts: number;
  /** Hosts that did not finish in time; their records may be missing. */
  readonly missingHosts: readonly string[];
  /** Records sent again; the database already had most of them. */
  readonly resent: number;
  /** Usage records from before the restore that were settled after it. */
  readonly recovered: number;
  /** Nano-USD, decimal text. */
  readonly recoveredCharge: string;
  /** Dropped records that may be younger than the backup: the maximum number of lost records. */
  readonly lostAtMost: number;
}

/** A detected restore. */
export interface NoticedRestore {
  readonly id: string;
  readonly cause: string;
  readonly beganAt: Date;
  /** The reconcile ends at this time, even if hosts are still awaited. */
  readonly endsBy: Date;
  /** Undefined while agents send their records again. */
  readonly endedAt: Date | undefined;
  /** Hosts whose records are still awaited. Empty once it has ended. */
  readonly awaited: readonly { readonly host: HostId; readonly name: string }[];
  /** Undefined until it has ended. */
  readonly report: ReconcileReport | undefined;
}

/** Sign of a restore at a host: a mark or an epoch, as text. */
export interface SignOfHost {
  readonly host: HostId;
  readonly sign: string;
}

export interface ReconcileStore {
  /** Newest first. */
  list(limit: number): Promise<readonly NoticedRestore[]>;
  /** Stores the current cluster and timeline; true if they differ from the stored ones. */
  sawIdentity(): Promise<boolean>;
  /** Returns the newest mark, a fresh one if that is older than `everyMs` or `isForced`. */
  mark(everyMs: number, isForced: boolean): Promise<string>;
  isKnownMark(mark: string): Promise<boolean>;
  /**
   * Opens a reconcile; false if one is open. Also false if the host showed this sign before, or another one within
   * `lastsMs`.
   */
  begin(cause: string, lastsMs: number, backupAtMs: number | undefined, shown?: SignOfHost): Promise<boolean>;
  /** Time of the newest mark, Unix ms. A restored database holds no later state, except for the interval between marks. */
  lastMarkAtMs(): Promise<number | undefined>;
  open(): Promise<OpenReconcile | undefined>;
  /** Counts above 1,000,000,000 are reduced to it, and times in the future to now. */
  sawResend(host: HostId, resend: ResendOfHost): Promise<void>;
  /** Ends the open reconcile when all hosts have sent their records or its time has passed. */
  endIfDone(): Promise<ReconcileReport | undefined>;
}
