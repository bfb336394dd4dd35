// What the fleet needs kept. Implemented by store/fleet-store.ts.
import type { DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import type { GpuClaim, HostRecord, Inventory } from "./host.ts";

export type { GpuClaim, HostRecord, Inventory };

export interface Registration {
  readonly hostId: HostId;
  readonly hostname: string;
  readonly advertise: string;
  readonly agentVersion: string;
  readonly inventory: Inventory;
  /** 32 random bytes; signs the tickets of the new epoch. */
  readonly ticketKey: Buffer;
}

export interface RouteRow {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  readonly hostId: HostId;
  readonly origin: string;
  readonly ticketKey: Buffer;
  readonly maxBatchSize: number;
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
  readonly leases?: { readonly ids: readonly string[]; readonly ageMs: number };
}

export interface FleetStore {
  /** Gives the host its next epoch and tells every replica. An older session is fenced from here on. */
  register(registration: Registration): Promise<{ readonly nodeEpoch: bigint }>;
  /** One statement for all hosts. */
  heard(beats: readonly HeartBeat[]): Promise<void>;
  /** Unix ms per host. */
  seenAt(): Promise<ReadonlyMap<HostId, number>>;
  setCondition(session: HostSession, to: { readonly schedulable: boolean; readonly condition: string }): Promise<void>;
  /** Moves the host's revision. */
  setInventory(session: HostSession, inventory: Inventory): Promise<void>;
  /** Lease ids in the last report of every host, and its age; of a host that never reported, since it first came. */
  openLeases(): Promise<
    readonly { readonly hostId: HostId; readonly leaseIds: readonly string[]; readonly reportAgeMs: number }[]
  >;
  /** With the GPU claims on them. */
  hosts(): Promise<readonly HostRecord[]>;
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

/** Keeps ticket keys at rest under the operator's key. The host's id is bound to the ciphertext. */
export interface TicketKeySeal {
  seal(key: Buffer, host: HostId): Buffer;
  open(sealed: Buffer, host: HostId): Buffer;
}
