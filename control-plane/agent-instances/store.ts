// Storage of agent instances. Implemented by store/agent-instance-store.ts and store/backup-store.ts. Every method that a
// customer can reach takes the account; every write is guarded by the revision it read.
import type { AccountId, DeploymentId, HostId, InstanceId, KeyId, MemberId } from "../../proto/ids.ts";
import type { NanoUsd } from "../../proto/money.ts";
import type { Act } from "../act.ts";
import type { Deployment, DeploymentStatus } from "../deployments/deployment.ts";
import type { NewDeployment } from "../deployments/store.ts";

export interface AgentPlan {
  readonly id: string;
  readonly vcpu: number;
  readonly ramBytes: number;
  /** Nano-USD per hour of a running instance. */
  readonly hourRate: NanoUsd;
  readonly monthlyEgressGb: number;
}

export interface AgentType {
  readonly id: string;
  readonly prettyName: string;
  readonly version: string;
  readonly image: string;
  /** Port on which its program listens. */
  readonly port: number;
  /** Mount path of its volume. */
  readonly volumePath: string;
  /** Port on which its dashboard listens; null: it has none. */
  readonly dashboardPort: number | null;
  readonly updateCommand: string | null;
  /** 0: manual only. */
  readonly backupEveryMs: number;
  /** Number of scheduled backups to keep. */
  readonly keepBackups: number;
  readonly plans: readonly AgentPlan[];
}

export type Operation = "backup" | "restore" | "try_restore";

export interface AgentInstance {
  readonly deployment: Deployment;
  readonly type: string;
  readonly plan: string;
  readonly version: string;
  /** Port of the version it runs. */
  readonly dashboardPort: number | null;
  readonly hourRate: NanoUsd;
  /** Created, or last started. */
  readonly startedAtMs: number;
  readonly wasStopped: boolean;
  /** Operation that runs on its volume. */
  readonly operation: Operation | null;
  readonly lastBackupAtMs: number | null;
  /** Error of the last operation; empty: it succeeded. */
  readonly lastFault: string;
  /** Host of its volume; null before the first placement. */
  readonly host: HostId | null;
  /** Public address of that host. */
  readonly address: string | null;
}

export interface NewAgentInstance {
  readonly deployment: NewDeployment;
  readonly type: AgentType;
  readonly plan: AgentPlan;
}

export type BackupState = "creating" | "ready" | "failed" | "deleting";

export interface Backup {
  readonly id: string;
  readonly instance: DeploymentId;
  readonly state: BackupState;
  readonly sizeBytes: number;
  readonly createdAtMs: number;
  readonly fault: string;
}

export type Begun =
  | { readonly kind: "begun"; readonly backup: string }
  /** Another operation is running. */
  | { readonly kind: "busy" }
  | { readonly kind: "wrong_state"; readonly status: string }
  /** Never placed, so there is no volume. */
  | { readonly kind: "no_volume" }
  /** Limit of manual backups. */
  | { readonly kind: "too_many"; readonly limit: number }
  | { readonly kind: "no_instance" }
  | { readonly kind: "no_backup" };

export interface AgentInstanceStore {
  /** `limit`: maximum live instances of the account. */
  insert(next: NewAgentInstance, limit: number): Promise<"made" | "name_taken" | "account_gone" | "too_many">;
  get(id: DeploymentId, account: AccountId): Promise<AgentInstance | undefined>;
  list(account: AccountId): Promise<readonly AgentInstance[]>;
  /** Returns false when the row changed since `ifRevision`. */
  rename(
    id: DeploymentId,
    account: AccountId,
    ifRevision: bigint,
    name: string,
  ): Promise<"renamed" | "moved" | "name_taken">;
  /** Records the start time; returns false when the row changed since `ifRevision` or an operation runs. */
  setStatus(
    id: DeploymentId,
    account: AccountId,
    ifRevision: bigint,
    status: "initializing" | "stopping" | "deleted",
    act: Act,
  ): Promise<boolean>;
  /** Restarts the container at once; returns false as `setStatus` does. */
  restart(id: DeploymentId, account: AccountId, ifRevision: bigint, act: Act): Promise<boolean>;
  /** Sets the current image of `type` and restarts the container at once. */
  update(id: DeploymentId, account: AccountId, ifRevision: bigint, type: AgentType): Promise<boolean>;
}

/** Open dashboard visits. Cookies are stored as hashes. */
export interface DashboardStore {
  /**
   * Creates a launch token, audited; ends the instance's oldest visits beyond `most`. Returns false when it does not run or
   * the account is gone.
   */
  launch(
    visit: { readonly hash: Buffer; readonly id: DeploymentId; readonly account: AccountId; readonly forMs: number },
    max: number,
    by: Launcher,
  ): Promise<boolean>;
  /** Exchanges the token's hash for a cookie's, once. Undefined: unknown, used or expired, or its instance does not run. */
  enter(token: Buffer, cookie: Buffer, forMs: number): Promise<DeploymentId | undefined>;
  /** Undefined: unknown or expired, key revoked, owner signed out, instance deleted, account suspended or gone. */
  visit(cookie: Buffer): Promise<DashboardRow | undefined>;
  /** Deletes expired ones. */
  sweep(): Promise<void>;
}

/** Creator of a launch token: the visit ends with the key or session that created it. */
export interface Launcher {
  /** The client's address, for the audit log. */
  readonly ip: string;
  readonly key: KeyId | undefined;
  /** Session id as stored in the database. */
  readonly login: Buffer | undefined;
  /** Member of an organisation, and who they are for the audit log. */
  readonly member?: MemberId | undefined;
  readonly by?: string | undefined;
}

export interface DashboardRow {
  readonly id: DeploymentId;
  readonly status: DeploymentStatus;
  /** Set while it serves on a host whose data path is verified and whose certificate is valid. */
  readonly at: { readonly instance: InstanceId; readonly host: HostId } | undefined;
}

export interface BackupStore {
  list(id: DeploymentId, account: AccountId): Promise<readonly Backup[]>;
  /**
   * Records the operation and the host's command together; audited. `backup`: new for a backup, otherwise an existing one.
   */
  begin(
    operation: Operation,
    of: {
      readonly id: DeploymentId;
      readonly account: AccountId;
      readonly backup: string;
      readonly isScheduled: boolean;
    },
    act: Act,
  ): Promise<Begun>;
  /** Removes a backup, audited; `busy` while an operation uses it. The next `retire` commands its host. */
  remove(
    of: { readonly id: DeploymentId; readonly account: AccountId; readonly backup: string },
    act: Act,
  ): Promise<"removed" | "busy" | "no_instance" | "no_backup">;
  /** Applies the hosts' reports of operations; returns how many ended. Idempotent. */
  settle(): Promise<number>;
  /** Running instances whose last backup, or attempt, is older than their type's interval. */
  due(
    types: ReadonlyMap<string, AgentType>,
    nowMs: number,
  ): Promise<readonly { readonly id: DeploymentId; readonly account: AccountId }[]>;
  /** True while a deleted instance's data has not been commanded to be removed. */
  hasLeftOvers(): Promise<boolean>;
  /** Commands hosts to remove excess scheduled backups and everything of deleted instances; returns the count. */
  retire(types: ReadonlyMap<string, AgentType>, nowMs: number): Promise<number>;
}
