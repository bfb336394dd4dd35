// What the fleet needs kept. Implemented by store/fleet-store.ts.
import type { AdapterId, DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
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
  /** Of the agent's process. */
  readonly runId: string;
  /** What the agent has obeyed so far. */
  readonly highestEpoch: bigint;
  readonly generation: bigint;
}

export type Registered =
  | {
      readonly kind: "registered";
      readonly nodeEpoch: bigint;
      /** The agent has obeyed an epoch that this database never gave it, and nobody has adopted the host since. */
      readonly isBehind: boolean;
      /** A run that another one took over from came back: its identity lives twice. */
      readonly isClone: boolean;
    }
  /** The run that took over from this one is alive: this one is fenced. */
  | { readonly kind: "superseded" };

export interface RouteRow {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  readonly hostId: HostId;
  readonly origin: string;
  readonly ticketKey: Buffer;
  readonly maxBatchSize: number;
  /** LoRA adapters that it holds. */
  readonly adapters: ReadonlySet<AdapterId>;
  readonly nodeEpoch: bigint;
}

export interface NeighbourRow {
  readonly hostId: HostId;
  readonly origin: string;
  readonly ticketKey: Buffer;
}

/** A host's epoch, as the writer knows it: a write of an older session changes nothing. */
export interface HostSession {
  readonly hostId: HostId;
  readonly nodeEpoch: bigint;
}

/** A sign of life since the last write; with a report's leases where one came. */
export interface HeartBeat extends HostSession {
  readonly leases?: { readonly ids: readonly string[]; readonly ageMs: number; readonly live: HostLive };
}

/** An operator says that GPUs are sound. */
export interface GpuUncordon {
  readonly host: HostId;
  /** Undefined: all of the host. */
  readonly gpu: string | undefined;
  readonly act: { readonly by: string; readonly ip: string; readonly note: string };
}

export interface HostOperationStore {
  /**
   * Cordons the host, or drains it where a deadline is given; the newest wins, audited. `draining`: it was only to be cordoned,
   * which would end its drain; nothing was written.
   */
  begin(
    wish: { readonly host: HostId; readonly deadlineMs: number | undefined },
    act: FleetAct,
  ): Promise<"begun" | "draining" | "unknown">;
  /** False when there is nothing to end. */
  end(host: HostId, act: FleetAct): Promise<boolean>;
  /** Hosts that are being emptied, and in how many ms that may take no longer; not above 0: now. */
  draining(): Promise<ReadonlyMap<HostId, number>>;
  /** Instances that are still there, and how many of them live on its disk. */
  left(host: HostId): Promise<{ readonly all: number; readonly fixed: number }>;
  /** All that are not on their way out. */
  placed(): Promise<readonly PlacedOn[]>;
  remove(host: HostId, act: FleetAct): Promise<"removed" | "has_instances" | "unknown">;
  /** Has the host end what runs there and no deployment knows, audited; what that is. `only`: of these instances. */
  endUnknown(host: HostId, only: readonly string[] | undefined, act: FleetAct): Promise<readonly InstanceId[]>;
}

export interface FleetStore {
  /**
   * Gives the host its next epoch and tells every replica: an older session is fenced from here on. A host that has obeyed a
   * newer state than this database holds keeps its epoch and is marked until somebody adopts it. `leaseMs`: a run heard
   * within it is alive.
   */
  register(registration: Registration, leaseMs: number): Promise<Registered>;
  /**
   * Lifts the host's epoch and generation above what its agent obeyed, audited; what runs there of deployments that are known
   * is known again. Undefined: the host is unknown, or not behind.
   */
  adopt(host: HostId, act: FleetAct, grantOf: GrantOf): Promise<AdoptedHost | undefined>;
  /** One statement for all hosts. */
  heard(beats: readonly HeartBeat[]): Promise<void>;
  /** Hosts whose certificate was taken back: they serve nobody, whatever they say. */
  revoked(): Promise<ReadonlySet<HostId>>;
  /** Of these, the ones whose certificates others would still believe: theirs have not expired yet. */
  barred(): Promise<readonly HostId[]>;
  /** Which process of the host's agent registered last; undefined: the host is not known. */
  runOf(host: HostId): Promise<string | undefined>;
  /** Unix ms per host. */
  seenAt(): Promise<ReadonlyMap<HostId, number>>;
  setCondition(session: HostSession, to: { readonly schedulable: boolean; readonly condition: string }): Promise<void>;
  /** Moves the host's revision. GPUs that are at fault are cordoned. */
  setInventory(session: HostSession, inventory: Inventory): Promise<void>;
  /** Lease ids in the last report of every host, and its age; of a host that never reported, since it first came. */
  openLeases(): Promise<
    readonly { readonly hostId: HostId; readonly leaseIds: readonly string[]; readonly reportAgeMs: number }[]
  >;
  /** All, or the named ones, with what is claimed on them; a cordoned GPU is not healthy. */
  hosts(only?: readonly HostId[]): Promise<readonly HostRecord[]>;
  /** An older session's word changes nothing. */
  setKeptWeights(session: HostSession, keys: readonly string[]): Promise<void>;
  /** Figures of the last report, as some replica wrote them down. */
  live(only?: readonly HostId[]): Promise<ReadonlyMap<HostId, AgedLive>>;
  /** Uuids by host. */
  cordonedGpus(): Promise<ReadonlyMap<HostId, ReadonlySet<string>>>;
  /** False when nothing there is cordoned. */
  uncordon(wish: GpuUncordon): Promise<boolean>;
  /** What signs a request to this host now; undefined when unknown. */
  dataPath(host: HostId): Promise<{ readonly origin: string; readonly ticketKey: Buffer } | undefined>;
  /**
   * Other hosts whose data path is proven, those first that run a model of the repository or were told to fetch it.
   * `repo` is owner/name of a hub, or `pypi:` and a package.
   */
  neighbours(host: HostId, repo: string, limit: number): Promise<readonly NeighbourRow[]>;
  /** Instances that are ready and not on their way out. */
  readyInstances(): Promise<readonly RouteRow[]>;
}

/** Bytes of the host's memory that an instance with these GPUs is promised. */
export type GrantOf = (gpuUuids: readonly string[], inventory: Inventory) => number;

export interface AdoptedHost {
  /** Known again. */
  readonly instances: readonly InstanceId[];
  /** Of these deployments. */
  readonly deployIds: readonly string[];
  /** What runs there and stays unknown, and why. */
  readonly left: readonly { readonly instanceId: string; readonly deployId: string; readonly why: string }[];
}

/** Keeps ticket keys at rest under the operator's key. The host's id is bound to the ciphertext. */
export interface TicketKeySeal {
  seal(key: Buffer, host: HostId): Buffer;
  open(sealed: Buffer, host: HostId): Buffer;
}

/** Who does something that is audited, from where, and why. */
export interface FleetAct {
  readonly by: string;
  readonly ip: string;
  readonly note: string;
}

export interface NewJoinToken {
  readonly id: string;
  readonly secretHash: Buffer;
  readonly pool: string;
  /** Undefined: any new host. */
  readonly forHost: HostId | undefined;
  readonly expiresAt: Date;
}

/** A host that asks for its first certificate, or for one after it lost its own. */
export interface EnrolmentClaim {
  readonly hostId: HostId;
  readonly keyHash: Buffer;
  readonly serial: string;
  readonly notAfter: Date;
  readonly ip: string;
  /** Undefined: the standing token of the installation. */
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

export interface EnrolmentStore {
  /** Keeps `made` unless there is an authority already; what is kept. */
  authority(
    make: () => Promise<{ readonly certificate: Buffer; readonly sealedKey: Buffer }>,
  ): Promise<{ readonly certificate: Buffer; readonly sealedKey: Buffer }>;
  addToken(token: NewJoinToken, act: FleetAct): Promise<void>;
  /** Takes the token and writes down who the host is, together; audited. The same host and key may repeat it. */
  enroll(claim: EnrolmentClaim): Promise<EnrolmentVerdict>;
  /** Undefined: no host of that id was enrolled here. */
  identity(host: HostId): Promise<KnownIdentity | undefined>;
  /** A newer certificate of the same key; also of a host that this database forgot. False: revoked, or another key. */
  renewed(host: HostId, certificate: Omit<EnrolmentClaim, "hostId" | "token" | "ip">): Promise<boolean>;
  /** No session and no route from here on; audited. False: unknown, or revoked already. */
  revoke(host: HostId, act: FleetAct): Promise<boolean>;
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

/** What a host is to do once. Rows are put by those who want something done, in their own transaction. */
export interface CommandStore {
  /** Without an outcome, oldest first; also past their deadline: the agent may have begun in time. */
  pending(host: HostId): Promise<readonly PendingCommand[]>;
  /** The first outcome stays; told to whoever waits as `command`. */
  finish(host: HostId, outcome: CommandOutcome): Promise<void>;
}

/** A repository an operator wants on a host. */
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
  /** Empty until it is there. */
  readonly commit: string;
  readonly bytes: bigint;
  /** 0 while unknown. */
  readonly bytesTotal: bigint;
  /** Empty while nothing is wrong. */
  readonly failCode: string;
  readonly failMessage: string;
  readonly createdAtMs: number;
}

/** How far one of them has come, as its host says. */
export type NodeWeightsNews = Pick<NodeWeights, "id" | "commit" | "bytes" | "bytesTotal" | "failCode" | "failMessage">;

export interface NodeWeightsStore {
  /** Wakes the host. Undefined when there is no such host. */
  ask(
    host: string,
    id: string,
    wish: AskedWeights,
    who: { readonly by: string; readonly ip: string },
  ): Promise<NodeWeights | undefined>;
  /** Oldest first; undefined when there is no such host. */
  list(host: string): Promise<readonly NodeWeights[] | undefined>;
  /** False when there is none. */
  drop(host: string, id: string, who: { readonly by: string; readonly ip: string }): Promise<boolean>;
  /** An older session's news change nothing. */
  observe(session: HostSession, news: readonly NodeWeightsNews[]): Promise<void>;
}
