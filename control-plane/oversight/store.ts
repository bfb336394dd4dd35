// Storage of oversight. Implemented by store/deployments/oversight-store.ts.
import type { AccountId, DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import type { InstancePhase } from "../../proto/instance-phase.ts";
import type { Deployment, DeploymentKind, DeploymentStatus } from "../deployments/deployment.ts";

/** A deployment of any kind with its owner and the hosts of its instances. */
export interface Overseen {
  readonly deployment: Deployment;
  readonly owner: {
    readonly account: AccountId;
    readonly email: string;
    readonly displayName: string;
    /** Null: not suspended. */
    readonly suspendReason: string | null;
  };
  readonly instances: readonly OverseenInstance[];
}

export interface OverseenInstance {
  readonly id: InstanceId;
  readonly host: HostId;
  readonly hostname: string;
  readonly phase: InstancePhase;
  readonly restarts: number;
  /** `code: message` of its failure or of the attempt being retried; empty: none. */
  readonly trouble: string;
  readonly gpuUuids: readonly string[];
  readonly createdAtMs: number;
}

export interface OverseenFilter {
  readonly account?: AccountId;
  readonly kind?: DeploymentKind;
  /** Undefined: all but deleted ones. */
  readonly statuses?: readonly DeploymentStatus[];
  /** Part of its name. */
  readonly name?: string;
  /** Host of one of its instances. */
  readonly host?: HostId;
  readonly gpu?: string;
}

/** A change of a deployment, one of its instances, a host or one of its GPUs. */
export interface FleetEvent {
  readonly id: bigint;
  readonly atMs: number;
  /** `noun.verb` */
  readonly kind: string;
  /** Null: the event is the host's. */
  readonly account: AccountId | null;
  readonly deployment: DeploymentId | null;
  readonly instance: InstanceId | null;
  /** Null: the event is the deployment's. */
  readonly host: HostId | null;
  readonly gpu: string | null;
  /** New status or phase, a count, or a version; empty: the kind says all. */
  readonly state: string;
  readonly reason: string;
}

/** An event with the names of its account, deployment and host, for operators. */
export interface NamedEvent extends FleetEvent {
  /** E-mail address, or the uid if the account was deleted. Null: without an account. */
  readonly accountEmail: string | null;
  /** Its model, or the name of its container or agent instance. */
  readonly deploymentName: string | null;
  readonly hostname: string | null;
}

export interface EventFilter {
  readonly account?: AccountId;
  readonly deployment?: DeploymentId;
  readonly host?: HostId;
  /** A whole kind, or its noun: `host` finds host.draining. */
  readonly kind?: string;
}

export type { FoundIncident, Incident, IncidentFacts, IncidentStore } from "./incidents.ts";
export type { IncidentKind } from "./judge.ts";
export type { BusyHost, Holding, NamedDeployment, TopStore, Traffic } from "./top.ts";

/** A backup of the control plane's database and secrets. */
export interface DatabaseBackup {
  readonly file: string;
  readonly takenAt: Date;
  readonly sizeBytes: number;
  /** Rows of all tables. */
  readonly rows: number;
  /** Version of Stoker that created it. */
  readonly version: string;
  /** Last trial restore that succeeded; null: none yet. */
  readonly verifiedAt: Date | null;
}

export interface BackupNotes {
  /** Newest first. */
  list(limit: number): Promise<readonly DatabaseBackup[]>;
}

export interface OversightStore {
  /** Newest first, those created before the deployment `after`. */
  list(filter: OverseenFilter, after: DeploymentId | undefined, limit: number): Promise<readonly Overseen[]>;
  get(id: DeploymentId): Promise<Overseen | undefined>;
  /** Newest first, those with an id below `before`. */
  events(filter: EventFilter, before: bigint | undefined, limit: number): Promise<readonly FleetEvent[]>;
  /** The same events with names. */
  namedEvents(filter: EventFilter, before: bigint | undefined, limit: number): Promise<readonly NamedEvent[]>;
}
